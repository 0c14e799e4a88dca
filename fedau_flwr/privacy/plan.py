"""Which matrix correlates the noise of a training, and how much noise a guarantee then needs."""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from ..client.separation import Separation
from . import toeplitz
from .blt import BufferedToeplitz, best_buffers
from .toeplitz import Vector, best_bands, prefix_variances, square_root

MOST_OPTIMISED = 10_000
"""Rounds up to which buffers are optimised within seconds; beyond, bands are used."""


@dataclass(frozen=True, eq=False)
class NoisePlan:
    """A matrix C for T rounds in which clients keep a separation."""

    matrix: BufferedToeplitz | Vector  # C: its buffers, or its coefficients, one per band
    rounds: int  # T
    separation: Separation  # how often a client takes part at most

    def __str__(self) -> str:
        if isinstance(self.matrix, BufferedToeplitz):
            return f"{len(self.matrix.scales)} buffers"
        return f"{len(self.matrix)} bands" if len(self.matrix) > 1 else "no correlation"

    @cached_property
    def coefficients(self) -> Vector:
        """The first column of C, as far as it is not zero."""
        if isinstance(self.matrix, BufferedToeplitz):
            return self.matrix.coefficients(self.rounds)
        return self.matrix

    def sensitivity(self, rounds: int | None = None) -> float:
        """Return how far one client moves C times the sums of the first `rounds` rounds."""
        limits = self.separation.rounds, self.separation.limit
        return toeplitz.sensitivity(self.coefficients, rounds or self.rounds, *limits)

    @cached_property
    def inverse(self) -> Vector:
        """The first column of C⁻¹."""
        if isinstance(self.matrix, BufferedToeplitz):
            return self.matrix.inverse(self.rounds)
        return toeplitz.inverse(self.matrix, self.rounds)

    def relative_error(self) -> float:
        """Return the root mean square error of prefix sums, in that of independent noise."""
        limits = self.separation.rounds, self.separation.limit
        return toeplitz.relative_error(
            self.coefficients, self.rounds, *limits, inverse_coefficients=self.inverse
        )

    def error(self) -> float:
        """Return the root mean square error of prefix sums for unit noise z."""
        return sqrt(float(np.mean(prefix_variances(self.inverse))))

    def bytes_per_value(self) -> int:
        """Return what the noise remembers of each value of the model."""
        if isinstance(self.matrix, BufferedToeplitz):
            return 8 * len(self.matrix.scales)
        return 4 * (len(self.matrix) - 1)


def banded(rounds: int, separation: Separation, *, most: int | None = None) -> NoisePlan:
    """Return the plan with the best number of bands, which are `most` at most."""
    bands = best_bands(rounds, separation.rounds, separation.limit, most=most)
    return NoisePlan(square_root(bands), rounds, separation)


def buffered(rounds: int, separation: Separation) -> NoisePlan:
    """Return the plan with the best buffers."""
    matrix = best_buffers(rounds, separation.rounds, separation.limit)
    return NoisePlan(matrix, rounds, separation)


def best_plan(rounds: int, separation: Separation, *, most_bytes: float | None = None) -> NoisePlan:
    """Return the plan with the least error of prefix sums.

    `most_bytes` limits what the noise remembers of each value. Of plans that are equal to a
    thousandth, the one that remembers less is taken.
    """
    independent = NoisePlan(square_root(1), rounds, separation)
    if not separation:
        return independent  # the best of all for clients that may come in every round
    most = None if most_bytes is None else 1 + int(most_bytes // 4)
    plans = [independent, banded(rounds, separation, most=most)]
    if rounds <= MOST_OPTIMISED:
        plans.append(buffered(rounds, separation))
    fit = [plan for plan in plans if most_bytes is None or plan.bytes_per_value() <= most_bytes]
    least = min(plan.relative_error() for plan in fit)
    good = [plan for plan in fit if plan.relative_error() <= 1.001 * least]
    return min(good, key=NoisePlan.bytes_per_value)
