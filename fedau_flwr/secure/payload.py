"""From the arrays of a contribution to one vector on the ring, and from the sum back to arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..wire.fixed_point import FixedPoint, Floats, Ring


@dataclass(frozen=True, kw_only=True)
class Payload:
    """What a masked vector holds: arrays of these shapes, and maybe the clipped fraction.

    The fraction is that of the values at the limit of the range, where clipping puts them. It
    travels as one more value, in units of the range.
    """

    shapes: tuple[tuple[int, ...], ...]
    fixed_point: FixedPoint
    report_clipping: bool = False

    @property
    def values(self) -> int:
        """The number of values in the arrays."""
        return sum(prod(shape) for shape in self.shapes)

    @property
    def size(self) -> int:
        """The number of ring elements."""
        return self.values + self.report_clipping

    def encode(self, grid_arrays: Sequence[Floats], *, clients: int = 1) -> Ring:
        """Lay out arrays on the grid, the sum of those of `clients` clients, as a ring vector."""
        if tuple(array.shape for array in grid_arrays) != self.shapes:
            raise ValueError("the arrays to be summed do not have the agreed shapes")
        flat = np.concatenate([np.ravel(array) for array in grid_arrays])
        ring = self.fixed_point.to_ring(flat, clients=clients)
        if not self.report_clipping:
            return ring
        limit = self.fixed_point.top * self.fixed_point.step
        fraction = np.count_nonzero(np.abs(flat) >= limit) / flat.size
        return np.append(ring, self.fixed_point.dtype.type(round(fraction * self.fixed_point.top)))

    def decode(self, total: Ring) -> tuple[list[Floats], float | None]:
        """Return the summed arrays and the sum of the clipped fractions, if these are reported."""
        values = self.fixed_point.from_ring(total)
        arrays = self._arrays(values[: self.values])
        if not self.report_clipping:
            return arrays, None
        return arrays, float(values[-1] / (self.fixed_point.top * self.fixed_point.step))

    def _arrays(self, flat: NDArray[Any]) -> list[Floats]:
        ends = np.cumsum([prod(shape) for shape in self.shapes])[:-1]
        return [
            part.reshape(shape)
            for part, shape in zip(np.split(flat, ends), self.shapes, strict=True)
        ]
