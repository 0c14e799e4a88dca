"""What every participation process has in common."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Process(ABC):
    """Who is there in which round.

    The path is a pure function of the constructor's arguments: asking for a round twice, or for
    rounds in any order, gives the same answer, so a resumed run needs nothing but the seed.

    Parameters
    ----------
    clients : int
        Number of clients N.
    """

    def __init__(self, clients: int) -> None:
        self.clients = clients

    @property
    def probability(self) -> NDArray[np.float64] | None:
        """Stationary probability of each client, or None where the process has none."""
        return None

    def active(self, t: int) -> NDArray[np.bool_]:
        """Return which clients are there in round ``t``, from 0 on (Flower's ``t + 1``)."""
        if not is_integer(t, 0):
            raise ValueError(f"Round {t!r} is not allowed: rounds are integers of 0 or more.")
        return self._active(int(t))

    @abstractmethod
    def _active(self, t: int) -> NDArray[np.bool_]:
        """Return a new array for round ``t``, which is known to be an integer of 0 or more."""


def check(name: str, value: object, fine: object, rule: str) -> None:
    """Raise ValueError about a value unless it is ``fine``."""
    if not fine:
        raise ValueError(f"{name} = {value!r} is not allowed: {rule}.")


def is_integer(value: object, least: int) -> bool:
    """Say whether ``value`` is an integer of ``least`` or more."""
    return isinstance(value, int | np.integer) and type(value) is not bool and int(value) >= least


def as_probabilities(p: ArrayLike) -> NDArray[np.float64]:
    """Return a copy of ``p`` as one probability in (0, 1] per client, or raise ValueError."""
    values = np.array(p, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"p has the shape {values.shape}: it must be a list of one probability per client."
        )
    fine = (values > 0) & (values <= 1)
    first = int(fine.argmin())  # the first that is not fine, if any
    rule = "participation probabilities must be in (0, 1]"
    check(f"p[{first}]", float(values[first]), fine[first], rule)
    return values


def require_positive_integer(name: str, value: int) -> int:
    """Return ``value`` as int, or raise ValueError if it is not an integer of 1 or more."""
    check(name, value, is_integer(value, 1), "it must be an integer of 1 or more")
    return int(value)
