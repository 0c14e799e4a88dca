"""Random numbers that nobody can predict from others of them: AES in counter mode.

numpy's generators are fast and even, but who sees enough of their output can compute the rest, and
noise that can be computed hides nothing.
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
    """A cryptographic generator of uniform and normal numbers.

    Parameters
    ----------
    key : bytes | None (default: None)
        32 bytes; None takes new ones from the system. A key of one's own is for tests: the same
        noise on two sums gives away their difference.
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
