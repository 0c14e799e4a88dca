"""Correlated noise that a few buffers remember: buffered linear Toeplitz matrices (BLT).

``c_0 = 1, c_j = Σ_i ω_i θ_i^(j-1)``: coefficients that need not end after a number of bands, and
noise that needs one vector per *buffer* (ω_i, θ_i) instead of one per band (Dvijotham et al., arXiv
2404.16706; for several participations McMahan et al., arXiv 2408.08868).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..checks import check
from .minimise import minimise
from .toeplitz import Vector, prefix_variances, sensitivity


@dataclass(frozen=True)
class BufferedToeplitz:
    """A Toeplitz matrix C of geometric sequences."""

    scales: Sequence[float]  # ω_i, positive, at most 1 together: coefficients then never increase
    decays: Sequence[float]  # θ_i, one for each scale, between 0 and 1

    def __post_init__(self) -> None:
        if len(self.scales) != len(self.decays):
            raise ValueError(
                f"decays are {len(self.decays)}, but must be as many as scales, {len(self.scales)}."
            )
        fine = all(scale > 0 for scale in self.scales) and sum(self.scales) <= 1
        check("scales", self.scales, fine, "positive, at most 1 together")
        fine = all(0 <= decay <= 1 for decay in self.decays)
        check("decays", self.decays, fine, "between 0 and 1")

    def coefficients(self, rounds: int) -> Vector:
        """Return the first column of C."""
        found = _geometric(np.asarray(self.scales), np.asarray(self.decays), rounds)
        # They never increase, but where they hardly fall, the last bits may.
        return np.maximum.accumulate(found[::-1])[::-1]

    def inverse_parameters(self) -> tuple[Vector, Vector]:
        """Return the scales and decays of C⁻¹, which is of the same form; its scales are negative.

        ``d_j = -qᵀ(Θ - qqᵀ)^(j-1) q`` with ``q_i = √ω_i``, and that matrix is symmetric: its
        eigenvalues are the decays, and no digits are lost where two decays are close.
        """
        q = np.sqrt(np.asarray(self.scales, np.float64))
        decays, vectors = np.linalg.eigh(np.diag(self.decays) - np.outer(q, q))
        return -((q @ vectors) ** 2), decays

    def inverse(self, rounds: int) -> Vector:
        """Return the first column of C⁻¹."""
        return _geometric(*self.inverse_parameters(), rounds)


def best_buffers(
    rounds: int,
    separation: int = 1,
    limit: int | None = None,
    *,
    buffers: int | None = None,
    error: Literal["mean", "max"] = "mean",
) -> BufferedToeplitz:
    """Return the matrix with the least error of prefix sums.

    The error is the mean square over the rounds, or that of the last one, which is the largest.
    Without a number of buffers one is added, up to four, as long as it brings a hundredth.
    """
    check("buffers", buffers, buffers is None or buffers >= 1, "at least 1")

    def loss(x: Vector) -> float:
        blt = _from_unconstrained(x)
        variances = prefix_variances(blt.inverse(rounds))
        least = variances[-1] if error == "max" else np.mean(variances)
        moved = sensitivity(blt.coefficients(rounds), rounds, separation, limit)
        return float(np.log(least)) + 2 * float(np.log(moved))

    def found(count: int) -> Vector:
        # Decays from one round to all, or to a few separations, whichever leads lower.
        horizons = {float(rounds), min(float(rounds), 4.0 * separation)}
        starts = (_start(count, horizon) for horizon in sorted(horizons))
        return min((minimise(loss, start) for start in starts), key=loss)

    best = found(buffers or 1)
    for count in range(2, 5) if buffers is None else ():
        more = found(count)
        # The loss is the logarithm of a square.
        if loss(more) > loss(best) - 0.02:
            break
        best = more
    return _from_unconstrained(best)


def _start(buffers: int, horizon: float) -> Vector:
    slowness = (4 + horizon) ** -((np.arange(buffers, 0, -1) - 0.5) / buffers)
    scales = 0.5 * np.sqrt(slowness) / buffers
    return np.concatenate((np.log(scales / (1 - scales.sum())), np.log(1 / slowness - 1)))


def _from_unconstrained(x: Vector) -> BufferedToeplitz:
    """Return the matrix of any numbers: scales sum up to less than 1, decays are within (0, 1)."""
    scales, decays = np.split(np.clip(x, -40.0, 36.0), 2)
    weights = np.exp(scales)
    scales, decays = weights / (1 + weights.sum()), 1 / (1 + np.exp(-decays))
    slowest_first = np.argsort(-decays)
    return BufferedToeplitz(*(tuple(some[slowest_first].tolist()) for some in (scales, decays)))


def _geometric(scales: Vector, decays: Vector, rounds: int) -> Vector:
    """Return ``1, Σ ω_i, Σ ω_i θ_i, Σ ω_i θ_i², …``."""
    # Powers are products of few: with s about √rounds, θ^(s·i + j) = θ^(s·i) θ^j.
    s = int(np.ceil(np.sqrt(rounds)))
    fine, coarse = decays[:, None] ** np.arange(s), decays[:, None] ** (s * np.arange(s))
    tail = ((scales[:, None] * coarse).T @ fine).ravel()
    return np.concatenate(([1.0], tail[: rounds - 1]))
