"""What correlated noise remembers of the rounds before: ``n_t = z_t - Σ_j c_j n_(t-j)``."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .blt import BufferedToeplitz
from .toeplitz import Vector


class NoiseMemory(ABC):
    """The noise of earlier rounds, as far as that of the next one depends on it.

    A round goes over the values part by part, `recall` before `remember`, and ends with `advance`.
    """

    values: NDArray[Any]
    round = 0

    @abstractmethod
    def recall(self, part: slice) -> Vector:
        """Return ``Σ_j c_j n_(t-j)`` of a part of the values."""

    @abstractmethod
    def remember(self, part: slice, noise: Vector) -> None:
        """Keep the noise n_t of a part."""

    def advance(self) -> None:
        """Go on to the next round."""
        self.round += 1


class BandMemory(NoiseMemory):
    """The last ``m - 1`` rounds' noise of `size` values, for m bands.

    Four bytes, the default, hold noise that is a whole number of steps.
    """

    def __init__(
        self, coefficients: Sequence[float] | Vector, size: int, dtype: DTypeLike = np.int32
    ) -> None:
        self._tail = np.asarray(coefficients, np.float64)[1:]
        self.values = np.zeros((len(self._tail), size), dtype)

    def recall(self, part: slice) -> Vector:
        """Return ``Σ_j c_j n_(t-j)`` of a part of the values."""
        # Row i has the round before t that is i modulo m - 1: c_1 goes with the row before t's.
        weights = np.roll(self._tail[::-1], self._row)
        recalled: Vector = weights @ self.values[:, part].astype(np.float64)
        return recalled

    def remember(self, part: slice, noise: Vector) -> None:
        """Keep the noise n_t of a part, in place of the oldest."""
        if len(self._tail):
            self.values[self._row, part] = noise

    @property
    def _row(self) -> int:
        return self.round % max(1, len(self._tail))


class BufferMemory(NoiseMemory):
    """One decaying sum of all earlier noise per buffer, ``s_i ← θ_i s_i + n_t``."""

    def __init__(self, matrix: BufferedToeplitz, size: int) -> None:
        self._scales = np.asarray(matrix.scales, np.float64)
        self._decays = np.asarray(matrix.decays, np.float64)[:, None]
        self.values = np.zeros((len(self._scales), size))

    def recall(self, part: slice) -> Vector:
        """Return ``Σ_j c_j n_(t-j) = Σ_i ω_i s_i`` of a part of the values."""
        recalled: Vector = self._scales @ self.values[:, part]
        return recalled

    def remember(self, part: slice, noise: Vector) -> None:
        """Let the buffers decay and add the noise n_t of a part."""
        self.values[:, part] *= self._decays
        self.values[:, part] += noise
