"""Random numbers that any round can have without the rounds before it."""

import zlib

import numpy as np
from numpy.typing import NDArray

from ..checks import check, is_integer


class Draws:
    """A stream of uniform numbers addressed by round; streams of one seed are independent.

    Philox is counter-based: the round number goes into the counter, so round 10,000 costs what
    round 0 costs and the order of access cannot matter. Raw bits are scaled here because NumPy
    promises a stable stream for its bit generators only, not for ``Generator``.
    """

    def __init__(self, seed: int, stream: str) -> None:
        check("seed", seed, is_integer(seed, 0), "an integer >= 0")
        self._sequence = np.random.SeedSequence([int(seed), zlib.crc32(stream.encode())])
        self._key = self._sequence.generate_state(2, np.uint64)

    def uniforms(self, t: int, size: int) -> NDArray[np.float64]:
        """Return ``size`` numbers of [0, 1) for round ``t``."""
        bits = np.random.Philox(key=self._key, counter=t << 64).random_raw(size)
        return np.asarray((bits >> np.uint64(11)) * 2.0**-53, dtype=np.float64)

    def generator(self) -> np.random.Generator:
        """Return a generator for what is drawn once per simulation."""
        return np.random.default_rng(self._sequence)
