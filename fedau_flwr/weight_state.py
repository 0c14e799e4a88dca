"""The three scalars that a client keeps about its participation, one client's or many clients'."""

import math
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

VERSION = 1


class StateError(ValueError):
    """A participation state that cannot be: names the field, its value and what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"FedAU state: {field} is {value!r}, but must be {allowed}.")


def check_integer(field: str, value: object, least: int) -> None:
    """Raise `StateError` unless a field is an integer, and large enough."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise StateError(field, value, f"an integer >= {least}")


@dataclass(frozen=True, slots=True)
class WeightState:
    """A client's participation history up to, not including, round ``t = round``.

    Parameters
    ----------
    round : int
        Rounds that are accounted for.
    intervals : int
        Closed participation intervals, the paper's `M`.
    elapsed : int
        Length of the running interval, the paper's `S`.
    weight : float
        Weight for the next round, the paper's `ω`.
    """

    round: int = 0
    intervals: int = 0
    elapsed: int = 0
    weight: float = 1.0

    def __post_init__(self) -> None:
        for field in ("round", "intervals", "elapsed"):
            check_integer(field, getattr(self, field), 0)
        if (least := self.intervals + self.elapsed) > self.round:
            raise StateError("round", self.round, f"at least intervals + elapsed = {least}")
        weight = self.weight
        if not isinstance(weight, int | float) or not math.isfinite(weight) or weight < 1.0:
            raise StateError("weight", weight, "a finite number >= 1")

    def to_dict(self) -> dict[str, int | float]:
        """Return the state as a JSON object."""
        return {"version": VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, object]) -> Self:
        """Read what `to_dict` wrote; an unreadable state raises one clear `StateError`."""
        if not isinstance(fields, Mapping):
            raise StateError("state", fields, "an object with the fields of a WeightState")
        if fields.get("version") != VERSION:
            raise StateError("version", fields.get("version"), str(VERSION))
        names = cls.__match_args__
        if missing := [name for name in names if name not in fields]:
            raise StateError(missing[0], None, "present")
        return cls(*(fields[name] for name in names))  # type: ignore[arg-type]  # checked there


@dataclass(frozen=True, slots=True, eq=False)
class WeightStates:
    """The states of many clients, one array element each."""

    round: NDArray[np.int64]
    intervals: NDArray[np.int64]
    elapsed: NDArray[np.int64]
    weight: NDArray[np.float64]

    @classmethod
    def repeat(cls, state: WeightState, clients: int) -> Self:
        """Return `clients` times the same state."""
        return cls(*(np.full(clients, value) for value in astuple(state)))

    def __len__(self) -> int:
        return len(self.round)

    def __getitem__(self, client: int) -> WeightState:
        columns = (self.round, self.intervals, self.elapsed, self.weight)
        return WeightState(*(column[client].item() for column in columns))
