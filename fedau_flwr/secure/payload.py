"""From the arrays of a contribution to one vector on the ring, and from the sum back to arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

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
    def size(self) -> int:
        """The number of ring elements."""
        return sum(map(prod, self.shapes)) + self.report_clipping

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
        flat = self.fixed_point.from_ring(total)
        # What is beyond the arrays is the fraction, or nothing.
        *values, rest = np.split(flat, np.cumsum([prod(shape) for shape in self.shapes]))
        arrays: list[Floats] = [v.reshape(s) for v, s in zip(values, self.shapes, strict=True)]
        if not self.report_clipping:
            return arrays, None
        return arrays, float(rest[0] / (self.fixed_point.top * self.fixed_point.step))
