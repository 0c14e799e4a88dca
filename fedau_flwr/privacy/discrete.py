"""Discrete Gaussian noise, for sums that are integers (Canonne, Kamath and Steinke 2020)."""

import numpy as np
from numpy.typing import NDArray

from .generator import SecureGenerator


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
