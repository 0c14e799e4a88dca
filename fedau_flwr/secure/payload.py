"""From the arrays of a contribution to one vector on the ring, and from the sum back to arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .fixed_point import FixedPoint, Floats
from .masks import Ring


@dataclass(frozen=True)
class Encoded:
    """A contribution ready to be masked.

    Attributes
    ----------
    vector : Ring
        The ring elements; a secret until they are masked.
    sent : list of ndarray
        What `vector` stands for: the arrays as they enter the sum, exactly.
    clipped : float
        The fraction of values that were beyond the range.
    """

    vector: Ring
    sent: list[Floats]
    clipped: float

    def __repr__(self) -> str:
        return f"Encoded(size={self.vector.size}, clipped={self.clipped})"


@dataclass(frozen=True, kw_only=True)
class Payload:
    """What a masked vector holds: arrays of these shapes, and maybe the clipped fraction."""

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

    def encode(
        self, arrays: Sequence[Floats], rng: np.random.Generator, *, noise_std: float = 0.0
    ) -> Encoded:
        """Round `arrays` to the grid and lay them out as one ring vector.

        `noise_std` is the client's share of the noise for differential privacy. The noise is
        rounded on its own and added on the grid: the sum is then exactly that of the rounded
        contributions plus noise that knows nothing of them. It has to be four steps wide at
        least, where rounded and true Gaussian noise cannot be told apart.
        """
        if tuple(array.shape for array in arrays) != self.shapes:
            raise ValueError("the arrays to be summed do not have the agreed shapes")
        if 0 < noise_std < 4 * self.fixed_point.step:
            raise ValueError(
                f"noise_std={noise_std} must be at least four steps of the grid "
                f"({4 * self.fixed_point.step}); use more bits."
            )
        flat = np.concatenate([np.ravel(array) for array in arrays])
        grid, clipped = self.fixed_point.round(flat, rng)
        if noise_std:
            noise, _ = self.fixed_point.round(rng.normal(0.0, noise_std, flat.size), rng)
            grid, pushed = self.fixed_point.round(np.add(grid, noise, dtype=np.float64), rng)
            clipped += pushed
        fraction = min(clipped / flat.size, 1.0)
        sent = self._arrays(grid)
        if self.report_clipping:
            share, _ = self.fixed_point.round(fraction * self.fixed_point.value_range, rng)
            grid = np.append(grid, share)
        return Encoded(self.fixed_point.to_ring(grid), sent, fraction)

    def decode(self, total: Ring) -> tuple[list[Floats], float | None]:
        """Return the summed arrays and the sum of the clipped fractions, if these are reported."""
        values = self.fixed_point.from_ring(total)
        clipped = values[-1] / self.fixed_point.value_range if self.report_clipping else None
        return self._arrays(values[: self.values]), clipped

    def _arrays(self, flat: NDArray[Any]) -> list[Floats]:
        ends = np.cumsum([prod(shape) for shape in self.shapes])[:-1]
        return [
            part.reshape(shape)
            for part, shape in zip(np.split(flat, ends), self.shapes, strict=True)
        ]
