"""Clipping: what one client can add to the sum has a bounded L2 norm.

The *contribution* is clipped, after weighting. Clipping the update and weighting it then would
multiply the bound by the weight, which is up to the cutoff, and the noise would no longer cover it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, isfinite, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..checks import check, check_positive

Floats = NDArray[np.floating[Any]]


def l2_norm(arrays: Sequence[Floats]) -> float:
    """Return the L2 norm of all values together."""
    total = 0.0
    for array in arrays:
        flat = np.ravel(array).astype(np.float64, copy=False)
        total += float(flat @ flat)
    return sqrt(total)


def clip(arrays: Sequence[Floats], norm: float, *, slack: float = 0.0) -> tuple[list[Floats], bool]:
    """Scale `arrays` by ``min(1, norm / ‖arrays‖)``; say whether they were within `norm`.

    `slack` is taken off the norm for what happens to the values afterwards: rounding them to the
    grid of a secure sum moves them by up to `FixedPoint.rounding_error`.
    """
    bound = norm - slack
    check("norm", norm, bound > 0, f"above {slack}, the error of rounding; use more bits")
    length = l2_norm(arrays)
    if not isfinite(length):
        raise ValueError("a contribution with values that are not finite cannot be clipped")
    if length <= bound:
        return list(arrays), length <= norm
    clipped: list[Floats] = list(arrays)
    factor = bound / length
    # Scaled values are rounded to the arrays' own precision, which can lengthen them again.
    while (left := l2_norm(clipped := [_scale(a, factor) for a in arrays])) > bound:
        factor *= min(bound / left, 1 - 1e-12)
    return clipped, length <= norm


def _scale(array: Floats, factor: float) -> Floats:
    return np.multiply(array, factor, dtype=np.float64).astype(array.dtype)


@dataclass(frozen=True, kw_only=True)
class AdaptiveNorm:
    """A clipping norm that follows a quantile of the contributions' norms (Andrew et al. 2021).

    Each client says whether it was within the norm, as one more coordinate of the sum, ±1/2. With
    ``b`` the noisy fraction of those within,
    ``norm ← norm · exp(-learning_rate · (b - quantile))``.

    Parameters
    ----------
    norm : float
        The norm to begin with.
    quantile : float
        The fraction of contributions that should be within the norm.
    learning_rate : float
        The step of the geometric update.
    bit_noise : float
        Standard deviation of the noise on the sum of the bits; the authors use a twentieth of the
        number of clients in a round.
    """

    norm: float
    quantile: float = 0.5
    learning_rate: float = 0.2
    bit_noise: float

    def __post_init__(self) -> None:
        for name in ("norm", "learning_rate", "bit_noise"):
            check_positive(name, getattr(self, name))
        check("quantile", self.quantile, 0 <= self.quantile <= 1, "between 0 and 1")

    @staticmethod
    def bit(within: bool) -> float:
        """Return the coordinate that a client adds: its absence changes the sum by 1/2."""
        return 0.5 if within else -0.5

    def contribution_multiplier(self, noise_multiplier: float) -> float:
        """Return the noise multiplier for the contributions that leaves room for the bits'.

        ``(z^-2 - (2·bit_noise)^-2)^(-1/2)``: both releases together then cost as much as one with
        `noise_multiplier`.
        """
        rule = f"more than half of noise_multiplier, {noise_multiplier}"
        check("bit_noise", self.bit_noise, 2 * self.bit_noise > noise_multiplier, rule)
        return 1 / sqrt(noise_multiplier**-2 - (2 * self.bit_noise) ** -2)

    def update(self, noisy_bits: float, clients: int) -> Self:
        """Return the norm of the next round, from the noisy sum of the bits of `clients`."""
        if clients == 0:
            return self
        within = 0.5 + noisy_bits / clients
        return replace(self, norm=self.norm * exp(-self.learning_rate * (within - self.quantile)))
