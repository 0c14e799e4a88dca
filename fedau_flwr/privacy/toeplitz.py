"""Correlated noise by a banded Toeplitz matrix C: its coefficients, sensitivity and error.

Instead of independent noise z the sums get ``n = C⁻¹ z``, in which later noise takes a part of the
earlier one back: what the model accumulates, the prefix sums of n, then varies far less. The whole
training is one Gaussian release of C times the sums, whose sensitivity depends on how often and how
densely a client can take part (Kalinin and Lampert, arXiv 2405.13763).

Matrices are given by their first column, `coefficients`, with ``c_0 = 1``.
"""

from collections.abc import Iterable
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import check
from .gdp import participations as most_participations

Vector = NDArray[np.float64]


def square_root(bands: int) -> Vector:
    """Return the first coefficients of the square root of the prefix sum matrix.

    ``c_j = c_{j-1} (2j - 1) / (2j)``: 1, 1/2, 3/8, 5/16, …
    """
    check("bands", bands, bands >= 1, "at least 1")
    j = np.arange(1, bands)
    return np.concatenate(([1.0], np.cumprod((2 * j - 1) / (2 * j))))


def inverse(coefficients: ArrayLike, rounds: int) -> Vector:
    """Return the first `rounds` coefficients of C⁻¹, in ``rounds · bands`` steps."""
    c = _first_column(coefficients, rounds)
    tail = c[:0:-1]
    # Zeros in front spare the first rounds a case of their own.
    d = np.zeros(len(tail) + rounds)
    d[len(tail)] = 1.0
    for t in range(len(tail) + 1, len(d)):
        d[t] = -(tail @ d[t - len(tail) : t])
    return d[len(tail) :]


def sensitivity(
    coefficients: ArrayLike, rounds: int, separation: int = 1, limit: int | None = None
) -> float:
    """Return how far one client moves C times the sums, each contribution having norm 1.

    A client that takes part k times, b rounds apart, moves them most when it begins at once:
    ``‖Σ_i shift(c, i·b)‖``. That is exact for coefficients that neither are negative nor increase;
    others are refused.
    """
    c = _first_column(coefficients, rounds)
    if c[-1] < 0 or np.any(c[1:] > c[:-1]):
        raise ValueError("coefficients increase or are negative, but must do neither.")
    k = most_participations(rounds, separation, limit)
    if k == 1:
        return float(np.linalg.norm(c))
    column = np.zeros(-(-rounds // separation) * separation)
    column[: len(c)] = c
    # Row i, column r is round i·b + r: a sum down the rows adds the copies, shifted by b each.
    moved = np.cumsum(column.reshape(-1, separation), axis=0)
    moved[k:] -= moved[:-k].copy()
    return float(np.linalg.norm(moved.ravel()[:rounds]))


def prefix_variances(inverse_coefficients: ArrayLike) -> Vector:
    """Return the variance of each prefix sum of ``n = C⁻¹ z``, of z with unit variance."""
    return np.cumsum(np.cumsum(np.asarray(inverse_coefficients, np.float64)) ** 2)


def relative_error(
    coefficients: ArrayLike,
    rounds: int,
    separation: int = 1,
    limit: int | None = None,
    *,
    inverse_coefficients: ArrayLike | None = None,
) -> float:
    """Return the root mean square error of prefix sums, in that of independent noise.

    Both at the same (b, k, ε, δ). `inverse_coefficients` spare finding them, where they are known.
    """
    if inverse_coefficients is None:
        inverse_coefficients = inverse(coefficients, rounds)
    moved = sensitivity(coefficients, rounds, separation, limit)
    error = float(np.mean(prefix_variances(inverse_coefficients)))
    k = most_participations(rounds, separation, limit)
    return moved * sqrt(error / (k * (rounds + 1) / 2))


def best_bands(
    rounds: int, separation: int = 1, limit: int | None = None, *, most: int | None = None
) -> int:
    """Return the number of bands, at most `most`, with the least error of prefix sums.

    Copies of c are b apart: the error has teeth, lowest at multiples of b, and these fall and rise
    once. The first sixteen are compared, then ever fewer, and then those close to the best.
    """
    most = rounds if most is None else min(most, rounds)
    check("most", most, most >= 1, "at least 1")
    errors: dict[int, float] = {}

    def best(multiples: Iterable[int]) -> int:
        for bands in {min(most, i * separation) for i in multiples} - errors.keys():
            errors[bands] = relative_error(square_root(bands), rounds, separation, limit)
        return min(errors, key=lambda bands: (errors[bands], bands))

    best([*range(1, 17), *(int(16 * 1.25**i) for i in range(1, 64))])
    errors[1] = relative_error(square_root(1), rounds, separation, limit)
    step = max(1, best([]) // separation // 4)
    while step > 1:
        step = -(-step // 3)
        centre = best([]) // separation
        best(max(1, centre + i * step) for i in (-2, -1, 1, 2))
    return best([])


def _first_column(coefficients: ArrayLike, rounds: int) -> Vector:
    c = np.asarray(coefficients, np.float64)
    if c.ndim != 1 or not len(c) or c[0] != 1 or not np.all(np.isfinite(c)):
        raise ValueError("coefficients must be finite and begin with 1.")
    check("rounds", rounds, rounds >= 1, "at least 1")
    return c[:rounds]
