"""What every participation process has in common."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import check, is_integer


class Process(ABC):
    """Who is there in which round.

    The path is a pure function of the constructor's arguments: asking for a round twice, or for
    rounds in any order, gives the same answer, so a resumed run needs nothing but the seed.
    """

    def __init__(self, clients: int) -> None:
        self.clients = clients

    @property
    def probability(self) -> NDArray[np.float64] | None:
        """Stationary probability of each client, or None where the process has none."""
        return None

    def active(self, t: int) -> NDArray[np.bool_]:
        """Return which clients are there in round ``t``, from 0 on (Flower's ``t + 1``)."""
        check("t", t, is_integer(t, 0), "an integer >= 0, as rounds are")
        return self._active(int(t))

    @abstractmethod
    def _active(self, t: int) -> NDArray[np.bool_]:
        """Return a new array for round ``t``, which is known to be an integer of 0 or more."""


def as_probabilities(p: ArrayLike) -> NDArray[np.float64]:
    """Return a copy of ``p`` as one probability in (0, 1] per client, or raise ValueError."""
    try:
        values = np.array(p, dtype=np.float64)
    except (TypeError, ValueError):  # texts, or lists of several lengths
        values = np.array([])
    check("p", p, values.ndim == 1 and values.size, "a list of one probability per client")
    fine = (values > 0) & (values <= 1)
    first = int(fine.argmin())  # the first that is not fine, if any
    check(f"p[{first}]", values[first], fine[first], "in (0, 1], as participation probabilities")
    return values
