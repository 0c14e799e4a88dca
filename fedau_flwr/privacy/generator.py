"""Random numbers that nobody can predict from others of them: AES in counter mode.

numpy's generators are fast and even, but who sees enough of their output can compute the rest, and
noise that can be computed hides nothing. Sums of integers get discrete Gaussian noise (Canonne,
Kamath and Steinke 2020).
"""

import os
from math import pi

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

# Values at once: what is computed on the way to them stays in the cache.
BLOCK = 1 << 14


class SecureGenerator:
    """A cryptographic generator of uniform and normal numbers, with a new key from the system.

    A key of one's own, 32 bytes, is for tests: the same noise on two sums gives away their
    difference.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._process = os.getpid()
        self._stream = _keystream(os.urandom(32) if key is None else key)

    def bits(self, size: int) -> NDArray[np.uint64]:
        """Return words of 64 random bits."""
        if self._process != os.getpid():
            # A copy of this process must not draw the same numbers as the other.
            self._process, self._stream = os.getpid(), _keystream(os.urandom(32))
        return np.frombuffer(self._stream.update(bytes(8 * size)), np.uint64)

    def uniform(self, size: int) -> NDArray[np.float64]:
        """Return uniform numbers from (0, 1], as fine near 0 as 2^-65."""
        return (self.bits(size).astype(np.float64) + 0.5) * 2.0**-64

    def normal(self, size: int) -> NDArray[np.float64]:
        """Return independent standard normal numbers, by Box and Muller's transform.

        The largest possible is 9.5; a true one is beyond that with probability 2^-68.
        """
        numbers = np.empty(size + size % 2)
        for start in range(0, size, BLOCK):
            block = numbers[start : start + BLOCK]
            half = len(block) // 2
            radius = np.sqrt(-2 * np.log(self.uniform(half)))
            angle = self.bits(half).view(np.int64) * (pi * 2.0**-63)
            np.multiply(radius, np.cos(angle), out=block[:half])
            np.multiply(radius, np.sin(angle), out=block[half:])
        return numbers[:size]

    def below(self, bound: int, size: int) -> NDArray[np.int64]:
        """Return at most `size` integers, uniform from 0 up to `bound`, which is not reached."""
        shift = np.uint64(64 - max(1, (bound - 1).bit_length()))
        numbers = (self.bits(size) >> shift).astype(np.int64)
        return numbers[numbers < bound]


def _keystream(key: bytes) -> CipherContext:
    return Cipher(AES256(key), CTR(bytes(16))).encryptor()


def discrete_gaussian(generator: SecureGenerator, sigma: float, size: int) -> NDArray[np.int64]:
    """Return integers, each x with a probability proportional to ``exp(-x² / 2σ²)``.

    No continuous value is rounded, so no last bits can tell anything. Proposals come from a
    discrete Laplace distribution of scale ``t = floor(σ) + 1`` and are accepted with the
    probability ``exp(-(|x| - σ²/t)² / 2σ²)``, all at once. Whole numbers are exact; the
    probabilities of acceptance have double precision, which moves no probability by a factor of
    more than 1 ± 2^-44 (within 12 σ): a value is within 2^-44 of the distribution in total
    variation.
    """
    if not 0 < sigma < 2.0**40:
        raise ValueError(f"sigma is {sigma}, but must be positive and below 2^40.")
    found = np.empty(0, np.int64)
    while len(found) < size:
        # About two in five proposals are accepted.
        found = np.concatenate((found, _accepted(generator, sigma, 3 * (size - len(found)) + 64)))
    return found[:size]


def _accepted(generator: SecureGenerator, sigma: float, proposals: int) -> NDArray[np.int64]:
    scale = int(sigma) + 1
    low = generator.below(scale, proposals)
    low = low[generator.uniform(len(low)) <= np.exp(-low / scale)]
    high = np.floor(-np.log(generator.uniform(len(low)))).astype(np.int64)
    size = low + scale * high
    negative = generator.bits(len(size)) >> np.uint64(63) == 1
    # Zero has one sign only.
    once = (size > 0) | ~negative
    size, negative = size[once], negative[once]
    chance = np.exp(-(((size - sigma**2 / scale) / sigma) ** 2) / 2)
    accepted = generator.uniform(len(size)) <= chance
    numbers: NDArray[np.int64] = np.where(negative, -size, size)[accepted]
    return numbers
