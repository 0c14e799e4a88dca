"""What a contribution consists of.

A contribution is one or several *parts*. Most are shaped like the model; a scalar is a part with
one value. The first part travels in place of the trained model, in the reply's own array record,
the others beside it. Statistics of normalisation layers (`fedau_flwr.statistics`) are in the first
part alone. Arrays that are not averaged (integers, bools) are in no part; zeros stand in for them
in the reply's own record, and the server ignores them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ..arrays import Arrays, is_averaged, wire_dtype

Parts = dict[str, Arrays]

UPDATE = "update"
"""The part that a method with a single one has."""
SCALAR = ""
"""Name of the one value of a scalar part."""
PARTS_RECORD = "fedau.parts"
"""Name of the record that holds all parts but the first."""


def scalar(value: float) -> Arrays:
    """Return a part that is one number."""
    return {SCALAR: np.array(value, np.float32)}


def flat_name(part: str, name: str) -> str:
    """Return the name under which an array of a part travels beside the first part."""
    return f"{part}/{name}" if name else part


def beside(parts: Parts) -> Arrays:
    """Return the arrays of all parts but the first by their names in `PARTS_RECORD`."""
    return {
        flat_name(part, name): value
        for part in list(parts)[1:]
        for name, value in parts[part].items()
    }


def added_parts(total: Parts | None, parts: Parts) -> Parts:
    """Add `parts` to `total` in place; the first are copied, being views of their message."""
    if total is None:
        return {part: {n: np.array(v) for n, v in some.items()} for part, some in parts.items()}
    for part, arrays in parts.items():
        for name, value in arrays.items():
            total[part][name] += value
    return total


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The parts of a round's contributions, in the order in which they travel."""

    model: Arrays  # by the names under which updates travel
    parts: tuple[str, ...] = (UPDATE,)  # shaped like the model, the first in its place
    scalars: tuple[str, ...] = ()  # of one value
    unweighted: tuple[str, ...] = ()  # arrays that no method sees, in the first part alone

    def numbered(self) -> Self:
        """Return this for a `NumPyClient`, whose arrays are named by their positions."""
        place = {name: str(number) for number, name in enumerate(self.model)}
        return replace(
            self,
            model={place[name]: value for name, value in self.model.items()},
            unweighted=tuple(place[name] for name in self.unweighted),
        )

    def arrays(self) -> Iterator[tuple[str, str, tuple[int, ...], np.dtype[Any]]]:
        """Yield part, name, shape and type of all arrays that are summed."""
        for number, part in enumerate(self.parts):
            for name, value in self.model.items():
                if is_averaged(value.dtype) and (number == 0 or name not in self.unweighted):
                    yield part, name, value.shape, wire_dtype(value.dtype)
        for part in self.scalars:
            yield part, SCALAR, (), np.dtype(np.float32)

    def names_beside(self) -> list[str]:
        """Return the names in `PARTS_RECORD`, in their order."""
        first = self.parts[0]
        return [flat_name(part, name) for part, name, *_ in self.arrays() if part != first]

    def assembled(self, arrays: list[Any]) -> Parts:
        """Return parts from their arrays in the order of `arrays`, each in its own type."""
        parts: Parts = {part: {} for part in (*self.parts, *self.scalars)}
        for (part, name, _, dtype), array in zip(self.arrays(), arrays, strict=True):
            parts[part][name] = array.astype(dtype, copy=False)
        return parts
