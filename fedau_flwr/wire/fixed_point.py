"""Real numbers as elements of a ring that wraps around at 2^32 or 2^64.

A value becomes an integer multiple of `step`. The step is a power of two, so that a multiple of
it is exact as a float and turning it into a ring element and back changes nothing: what a client
remembers as sent is what the server gets.
"""

from dataclasses import dataclass
from math import ceil, floor, log2, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import check
from ..privacy.generator import SecureGenerator, discrete_gaussian

Floats = NDArray[np.floating[Any]]
Ring = NDArray[np.unsignedinteger[Any]]

MIN_NOISE_STEPS = 4
"""Steps of the grid that one standard deviation of noise must have."""
_RINGS: dict[int, np.dtype[Any]] = {32: np.dtype(np.uint32), 64: np.dtype(np.uint64)}


@dataclass(frozen=True, kw_only=True)
class FixedPoint:
    """A grid of `bits`-bit values over ±`value_range`, of which `max_cohort` can be added.

    The range applies to what a client sends, that is after weighting; values beyond it are clipped,
    and counted. The bits of a value, sign included, are at most 25 on the ring of 2^32 and 53 on
    that of 2^64, where floats are exact.
    """

    value_range: float = 8.0
    bits: int = 22
    ring_bits: int = 32  # or 64
    max_cohort: int = 1000  # the largest number of clients whose values are ever added

    def __post_init__(self) -> None:
        fine = 1e-9 <= self.value_range <= 1e9
        check("value_range", self.value_range, fine, "between 1e-9 and 1e9")
        check("ring_bits", self.ring_bits, self.ring_bits in _RINGS, "32 or 64")
        most = 25 if self.ring_bits == 32 else 53
        rule = f"from 2 to {most} on the ring of 2^{self.ring_bits}"
        check("bits", self.bits, 2 <= self.bits <= most, rule)
        check("max_cohort", self.max_cohort, self.max_cohort >= 2, "at least 2")
        if self.max_cohort * self.top >= 2 ** (self.ring_bits - 1):
            raise ValueError(
                f"bits={self.bits} could overflow: max_cohort={self.max_cohort} values of up to "
                f"{self.top} steps sum to {self.max_cohort * self.top}, but the ring of "
                f"2^{self.ring_bits} holds sums below {2 ** (self.ring_bits - 1)}; use fewer bits "
                f"or ring_bits=64."
            )

    @property
    def step(self) -> float:
        """The distance of neighbouring grid values, a power of two."""
        return float(2.0 ** ceil(log2(self.value_range / 2 ** (self.bits - 1))))

    @property
    def top(self) -> int:
        """The largest grid value in steps."""
        return floor(self.value_range / self.step)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of ring elements."""
        return _RINGS[self.ring_bits]

    def rounding_error(self, size: int) -> float:
        """Bound the L2 distance that rounding moves a vector of `size` values."""
        return self.step * sqrt(size)

    def round(self, values: ArrayLike, rng: np.random.Generator) -> tuple[Floats, int]:
        """Round to the grid, up or down at random so that the expectation is exact.

        Values that are on the grid stay as they are. Returns the grid values and how many values
        were clipped.
        """
        given = np.asarray(values)
        steps = np.asarray(np.multiply(given, 1 / self.step, dtype=np.float64))
        if not np.isfinite(steps).all():
            raise ValueError("a value to be summed is not finite")
        clipped = int(np.count_nonzero(np.abs(steps) > self.value_range / self.step))
        np.clip(steps, -self.top, self.top, out=steps)
        grid = np.floor(steps)
        steps -= grid
        grid += rng.random(grid.shape) < steps
        grid *= self.step
        exact = np.float32 if self.bits <= 25 and given.dtype.itemsize <= 4 else np.float64
        return grid.astype(exact, copy=False), clipped

    def check_noise(self, name: str, std: float) -> None:
        """Refuse noise below four steps of the grid."""
        least = MIN_NOISE_STEPS * self.step
        check(name, std, std >= least, f"at least four steps of the grid ({least}); use more bits")

    def add_noise(self, grid: Floats, std: float, generator: SecureGenerator) -> tuple[Floats, int]:
        """Add discrete Gaussian noise, in steps of the grid; count what leaves the range.

        The sum is then exactly that of the grid values plus noise that knows nothing of them, from
        a cryptographic generator. Noise below four steps is refused: from there on the sum of
        several discrete Gaussians is one in all but name, to 10·exp(-π²σ²) per value and client
        (Kairouz et al. 2021), and its ε that of the continuous one.
        """
        self.check_noise("noise", std)
        noise = discrete_gaussian(generator, std / self.step, np.size(grid))
        steps = np.array(np.multiply(grid, 1 / self.step, dtype=np.float64))
        steps += noise.reshape(np.shape(grid))
        pushed = int(np.count_nonzero(np.abs(steps) > self.top))
        np.clip(steps, -self.top, self.top, out=steps)
        steps *= self.step
        return steps.astype(grid.dtype, copy=False), pushed

    def to_ring(self, grid: ArrayLike, *, clients: int = 1) -> Ring:
        """Turn values on the grid, sums over `clients`, into ring elements, unchanged."""
        steps = np.multiply(grid, 1 / self.step, dtype=np.float64)
        whole = np.rint(steps)
        if not np.array_equal(whole, steps) or np.abs(whole).max(initial=0) > clients * self.top:
            raise ValueError("a value is not on the grid; round it first")
        return whole.astype(np.int64).astype(self.dtype)

    def from_ring(self, total: Ring) -> NDArray[np.float64]:
        """Turn a sum of ring elements back into numbers."""
        signed = total.view(np.dtype(f"i{self.ring_bits // 8}")).astype(np.float64)
        signed *= self.step
        return signed
