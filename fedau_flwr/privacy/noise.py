"""Gaussian noise on the sum, added by the server or split over the clients.

The noise on the sum has the standard deviation ``noise_multiplier · norm``. With a plain sum the
server adds it. With a secure sum the clients do, so that nobody ever holds the sum without noise:
each adds a share large enough for the smallest sum that can be unmasked. A sum over more clients
carries more noise than promised, never less.

Clients draw their shares from a cryptographic generator, as discrete Gaussians on the grid of the
sum (`FixedPoint.add_noise`). `add_noise` here takes any generator of numpy, for experiments.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np

from ..checks import check, check_positive
from .clipping import Floats


def sum_std(noise_multiplier: float, norm: float) -> float:
    """Return the standard deviation of the noise on the sum."""
    check_positive("noise_multiplier", noise_multiplier)
    check_positive("norm", norm)
    return noise_multiplier * norm


def share_std(std: float, *, survivors: int, colluding: int = 0) -> float:
    """Return the standard deviation of one client's share: ``std / sqrt(survivors - colluding)``.

    `survivors` is the smallest number of clients over which the sum can be unmasked, that is the
    cohort less the dropouts that are tolerated (`SecureClient.least_survivors`); `colluding` of
    these may tell the server their own share of the noise.
    """
    rule = f"more than colluding, {colluding}, which must not be negative"
    check("survivors", survivors, survivors > colluding >= 0, rule)
    return std / sqrt(survivors - colluding)


def add_noise(arrays: Sequence[Floats], std: float, rng: np.random.Generator) -> list[Floats]:
    """Return `arrays` with independent Gaussian noise on every value."""
    return [
        (array + rng.normal(0.0, std, np.shape(array))).astype(np.asarray(array).dtype)
        for array in arrays
    ]
