"""What a contribution consists of.

A contribution is one or several *parts*. Most are shaped like the model; a scalar is a part with
one value. The first part travels in place of the trained model, in the reply's own array record,
the others beside it. Arrays that are not averaged (integers, bools) are in no part; zeros stand in
for them in the reply's own record, and the server ignores them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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


def add_parts(total: Parts, parts: Parts) -> None:
    """Add `parts` to `total` in place."""
    for part, arrays in parts.items():
        for name, value in arrays.items():
            total[part][name] += value


def copied(parts: Parts) -> Parts:
    """Return parts whose arrays can be written to: a decoded one is a view of its message."""
    return {part: {n: np.array(value) for n, value in some.items()} for part, some in parts.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """The parts of a round's contributions, in the order in which they travel.

    Parameters
    ----------
    model : Arrays
        The model that is trained on, by the names under which updates travel.
    parts : tuple[str, ...]
        The parts that are shaped like the model, the first of them in place of the trained model.
    scalars : tuple[str, ...]
        The parts of one value.
    """

    model: Arrays
    parts: tuple[str, ...] = (UPDATE,)
    scalars: tuple[str, ...] = ()

    def averaged(self) -> Arrays:
        """Return the model's arrays that take part in the average."""
        return {name: value for name, value in self.model.items() if is_averaged(value.dtype)}

    def arrays(self) -> Iterator[tuple[str, str, tuple[int, ...], np.dtype[Any]]]:
        """Yield part, name, shape and type of all arrays that are summed."""
        for part in self.parts:
            for name, value in self.averaged().items():
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
