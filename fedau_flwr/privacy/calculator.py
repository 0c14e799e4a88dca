"""What a guarantee costs: plain, separated and correlated noise side by side."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

import numpy as np

from .blt import best_buffers
from .gdp import epsilon_of, mu_of, participations
from .toeplitz import Vector, best_bands, inverse, prefix_variances, sensitivity, square_root


@dataclass(frozen=True)
class Option:
    """One way to keep a training private.

    Parameters
    ----------
    name : str
        "plain", "separated", "correlated, bands" or "correlated, buffers".
    participations : int
        The most sums that one client's data can enter.
    vectors : int
        How many vectors as long as the model the noise has to remember.
    noise_multiplier : float
        The standard deviation of the noise that is drawn in a round, in units of the norm.
    error : float
        Root mean square error of prefix sums, which is what the model has of the noise, relative to
        plain noise for the same guarantee (or of the same multiplier, if that is given).
    epsilon : float
        The ε of the whole training.
    """

    name: str
    participations: int
    vectors: int
    noise_multiplier: float
    error: float
    epsilon: float


def options(
    *,
    delta: float,
    rounds: int,
    epsilon: float | None = None,
    noise_multiplier: float | None = None,
    separation: int = 1,
    limit: int | None = None,
    most_bands: int | None = None,
) -> tuple[Option, ...]:
    """Return the table of all ways, for a target `epsilon` or for a given `noise_multiplier`.

    Parameters
    ----------
    delta : float
        The δ of the whole training.
    rounds : int
        T, the sums to release.
    epsilon : float | None
        The ε to keep; the noise follows.
    noise_multiplier : float | None
        The noise to use instead; ε follows.
    separation, limit : int
        A client takes part at most once in `separation` rounds and at most `limit` times.
    most_bands : int | None
        A limit to the bands, each of which costs a vector of memory.
    """
    if (epsilon is None) == (noise_multiplier is None):
        raise ValueError("either epsilon or noise_multiplier must be given, and not both.")
    if noise_multiplier is not None and not 0 < noise_multiplier < float("inf"):
        raise ValueError(
            f"noise_multiplier is {noise_multiplier}, but must be positive and finite."
        )
    target = None if epsilon is None else mu_of(epsilon, delta)
    table = []
    plain = 0.0
    for name, count, vectors, moved, unit in _ways(rounds, separation, limit, most_bands):
        multiplier = moved / target if target is not None else noise_multiplier or 0.0
        error = multiplier * unit
        plain = plain or error
        spent = epsilon_of(delta, moved / multiplier) if epsilon is None else epsilon
        table.append(Option(name, count, vectors, multiplier, error / plain, spent))
    return tuple(table)


def _ways(
    rounds: int, separation: int, limit: int | None, most_bands: int | None
) -> Iterator[tuple[str, int, int, float, float]]:
    """Yield name, participations, vectors, sensitivity and the error of prefix sums of unit z."""
    independent = sqrt((rounds + 1) / 2)
    k = participations(rounds, separation, limit)
    yield "plain", rounds, 0, sqrt(rounds), independent
    yield "separated", k, 0, sqrt(k), independent
    bands = best_bands(rounds, separation, limit, most=most_bands)
    c = square_root(bands)
    moved = sensitivity(c, rounds, separation, limit)
    yield "correlated, bands", k, bands - 1, moved, _error(inverse(c, rounds))
    matrix = best_buffers(rounds, separation, limit)
    moved = matrix.sensitivity(rounds, separation, limit)
    buffers = len(matrix.scales)
    yield "correlated, buffers", k, buffers, moved, _error(matrix.inverse(rounds))


def _error(inverse_coefficients: Vector) -> float:
    return sqrt(float(np.mean(prefix_variances(inverse_coefficients))))
