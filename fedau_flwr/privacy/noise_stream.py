"""Noise for the sum of one round after the other, correlated or not, safe in floating point.

Floating-point numbers are not evenly spaced, and the last bits of ``sum + noise`` can tell which
sums are possible (Mironov 2012). Here the sum and the noise are whole multiples of one step, a
power of two, before they are added, and the addition is exact.

Why that costs no privacy: with X_t the sum in steps and ``n_t = round(z_t - Σ_j c_j n_(t-j))``, the
release is ``y_t = X_t + n_t = round(z_t + (C X)_t - Σ_j c_j y_(t-j))``. It follows from the
Gaussian release ``z_t + (C X)_t`` and from what was released before, so the rounded noise is as
private as the continuous one. Rounding the *sum* can move two sums apart, by at most a step in each
value: `guarded_std` adds the noise for it, less than a thousandth for a million values and a noise
multiplier of 10.

z_t is drawn in two layers, of which the fine one has 2^-12 of the standard deviation: the double
precision of the coarse one then disappears within the fine one's density. Up to 9 standard
deviations, which 2^31 values keep with a probability of 1 - 2^-27, every probability is met to a
factor of about 1 ± 2^-36. The privacy loss of that many values is a sum of as many independent
terms: it changes by about 2^-20, and ε by less than 1e-5.
"""

from collections.abc import Mapping, Sequence
from math import frexp, ldexp, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import check, check_positive
from .blt import BufferedToeplitz
from .generator import SecureGenerator
from .noise_memory import BandMemory, BufferMemory, NoiseMemory
from .toeplitz import Vector

Arrays = Mapping[str, NDArray[np.floating[Any]]]

_STEP_BITS = 24
_FINE = 2.0**-12
_PART = 1 << 13


def step_of(std: float) -> float:
    """Return the step of the grid: a power of two, between 2^-25 and 2^-24 of `std`."""
    check_positive("std", std)
    return ldexp(1.0, frexp(std)[1] - 1 - _STEP_BITS)


def guarded_std(noise_multiplier: float, norm: float, size: int) -> float:
    """Return the standard deviation of z for sums of `size` values that are rounded to the grid.

    ``noise_multiplier · (norm + step · √size)``: rounding moves each value by a step at most.
    """
    excess = noise_multiplier * ldexp(sqrt(size), -_STEP_BITS)
    if excess > 0.5:
        rule = f"at most {0.5 * noise_multiplier / excess:.4g} for sums of {size} values"
        check("noise_multiplier", noise_multiplier, False, rule)
    return noise_multiplier * norm / (1 - excess)


class NoiseStream:
    """Adds noise to one sum per round; the noise of a round takes back some of the earlier noise.

    The matrix C is given by its coefficients, one per band, or by its buffers; ``[1.0]`` makes
    independent noise. `std` is that of z, of which the noise is made (see `guarded_std`).

    The memory takes four bytes for each value and band but the first, or eight for each value and
    buffer. Who reads it, in `state_dict` too, can take the noise off: keep it like the sums
    themselves. No sum may be released twice; a stream that goes on from an old state would do that.
    """

    def __init__(
        self,
        matrix: Sequence[float] | Vector | BufferedToeplitz,
        std: float,
        *,
        generator: SecureGenerator | None = None,
    ) -> None:
        self.std = std
        self.step = step_of(std)
        self._matrix = matrix
        self.noise = np.zeros(0, np.int32)
        """The noise of the last release, in steps."""
        self._generator = generator or SecureGenerator()
        self._memory: NoiseMemory | None = None

    @property
    def round(self) -> int:
        """The number of sums released."""
        return self._memory.round if self._memory else 0

    def release(self, sums: Arrays) -> dict[str, NDArray[np.floating[Any]]]:
        """Return `sums`, rounded to the grid, with the noise of the next round on every value."""
        flat = np.concatenate([np.ravel(array) for array in sums.values()], dtype=np.float64)
        flat /= self.step
        if not np.max(np.abs(flat), initial=0.0) < 2.0**51:
            raise ValueError("a sum must be finite and below 2^26 standard deviations of its noise")
        np.rint(flat, out=flat)
        memory = self._memory or self._new_memory(len(flat))
        if memory.values.shape[1] != len(flat):
            raise ValueError(f"sums have {len(flat)} values, but must have as many as before.")
        self.noise = np.empty(len(flat), np.int32)
        for start in range(0, len(flat), _PART):
            part = slice(start, start + _PART)
            noise = self._rounded(memory.recall(part))
            memory.remember(part, noise)
            flat[part] += noise
            self.noise[part] = noise
        memory.advance()
        self._memory = memory
        flat *= self.step
        ends = np.cumsum([np.size(array) for array in sums.values()])
        pieces = np.split(flat, ends[:-1])
        return {
            name: piece.reshape(np.shape(array)).astype(array.dtype)
            for (name, array), piece in zip(sums.items(), pieces, strict=True)
        }

    def repeat(self, noise: NDArray[np.int32] | None) -> None:
        """Remember the noise of a round that an earlier process released; None for no release.

        A round without a release has no noise. The others then have ``C_SS⁻¹ z``, with the rows and
        columns of C for the rounds S that were released: a part of C, whose sensitivity is at most
        that of C.
        """
        if noise is None:
            if self._memory is None:
                return
            noise = np.zeros(self._memory.values.shape[1], np.int32)
        memory = self._memory or self._new_memory(len(noise))
        memory.remember(slice(None), noise.astype(np.float64))
        memory.advance()
        self._memory = memory

    def state_dict(self) -> dict[str, Any]:
        """Return the round and the memory itself, not a copy: it changes with the next release."""
        if self._memory is None:
            return {"round": 0, "memory": None}
        return {"round": self._memory.round, "memory": self._memory.values}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on after the round in `state`, with z that was never used before."""
        if state["memory"] is None:
            self._memory = None
            return
        values = np.asarray(state["memory"])
        memory = self._new_memory(values.shape[1])
        if (memory.values.shape, memory.values.dtype) != (values.shape, values.dtype):
            raise ValueError(
                f"memory is {values.dtype}{values.shape}, "
                f"but must be {memory.values.dtype}{memory.values.shape} for this matrix."
            )
        memory.values[:] = values
        memory.round = int(state["round"])
        self._memory = memory

    def _new_memory(self, size: int) -> NoiseMemory:
        if isinstance(self._matrix, BufferedToeplitz):
            return BufferMemory(self._matrix, size)
        return BandMemory(self._matrix, size)

    def _rounded(self, recalled: Vector) -> Vector:
        """Return ``round(z - recalled)`` in steps; only small numbers meet before the rounding."""
        std = self.std / self.step
        coarse = self._generator.normal(len(recalled)) * (std * sqrt(1 - _FINE**2))
        fine = self._generator.normal(len(recalled)) * (std * _FINE)
        whole = np.rint(coarse)
        whole_recalled = np.rint(recalled)
        fine += coarse - whole
        fine -= recalled - whole_recalled
        noise: Vector = whole - whole_recalled + np.rint(fine)
        # 64 standard deviations: a matrix that needs more amplifies noise.
        if not np.max(np.abs(noise)) < 2.0**31:
            raise OverflowError("noise exceeds its memory: this matrix amplifies it.")
        return noise
