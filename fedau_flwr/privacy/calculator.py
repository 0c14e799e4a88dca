"""What a guarantee costs: plain, separated and correlated noise side by side."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, sqrt

from ..checks import check, check_positive
from ..client.separation import Separation
from .gdp import epsilon_of, mu_of, participations, releases_within
from .gdp import noise_multiplier as multiplier_of
from .plan import NoisePlan, banded, buffered
from .toeplitz import square_root


@dataclass(frozen=True)
class Option:
    """One way to keep a training private.

    Its error is the root mean square error of prefix sums, which is what the model has of the
    noise, relative to plain noise for the same guarantee (or multiplier, if that is given).
    """

    name: str  # "plain", "separated", "correlated, bands" or "correlated, buffers"
    participations: int  # the most sums that one client's data can enter
    vectors: int  # how many of them, as long as the model, the noise has to remember
    noise_multiplier: float  # standard deviation of a round's noise, in units of the norm
    error: float
    epsilon: float  # of the whole training


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

    A client takes part at most once in `separation` rounds and at most `limit` times. Each of the
    bands, which are `most_bands` at most, costs a vector of memory.
    """
    if (epsilon is None) == (noise_multiplier is None):
        raise ValueError("either epsilon or noise_multiplier must be given, and not both.")
    if noise_multiplier is not None:
        check_positive("noise_multiplier", noise_multiplier)
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
    apart = Separation(separation, limit)
    bands = banded(rounds, apart, most=most_bands)
    yield "correlated, bands", k, len(bands.coefficients) - 1, bands.sensitivity(), bands.error()
    buffers = buffered(rounds, apart)
    vectors = buffers.bytes_per_value() // 8
    yield "correlated, buffers", k, vectors, buffers.sensitivity(), buffers.error()


def rounds_within(epsilon: float, delta: float, noise_multiplier: float, separation: int) -> int:
    """Return how many rounds a guarantee has room for, with independent noise."""
    return separation * releases_within(epsilon, delta, noise_multiplier)


def least_separation(epsilon: float, delta: float, noise_multiplier: float, rounds: int) -> int:
    """Return the smallest separation at which `rounds` rounds keep a guarantee."""
    turns = releases_within(epsilon, delta, noise_multiplier)
    least = multiplier_of(epsilon, delta, 1)
    rule = f"at least {least:.4g}: not one sum keeps within the guarantee"
    check("noise_multiplier", noise_multiplier, turns, rule)
    return ceil(rounds / turns)


COLUMNS = (
    "separation",
    "noise",
    "vectors",
    "noise multiplier",
    "relative error",
    "effective noise",
)
COMPARED_BANDS = (64, 100, 200)


def effective_noise(
    *, epsilon: float, delta: float, rounds: int, separations: Iterable[int]
) -> list[tuple[int, str, int, float, float, float]]:
    """Return rows with `COLUMNS`: what each way leaves of the noise, for several separations.

    The relative error is that of independent noise at the same separation; the effective noise is
    that of plain noise, in which no separation is reckoned with. Beside the best number of bands
    are those of the literature: as many as the separation, 64, 100 and 200.
    """
    mu = mu_of(epsilon, delta)
    rows: list[tuple[int, str, int, float, float, float]] = []
    for separation in separations:
        apart = Separation(separation)
        k = participations(rounds, separation)
        best = banded(rounds, apart)
        others = sorted({min(m, rounds) for m in (separation, *COMPARED_BANDS)})
        plans = {f"{m} bands": NoisePlan(square_root(m), rounds, apart) for m in others if m > 1}
        plans["best bands"] = best
        plans["buffers"] = buffered(rounds, apart)
        rows.append((separation, "plain", 0, sqrt(rounds) / mu, sqrt(rounds / k), 1.0))
        rows.append((separation, "separated", 0, sqrt(k) / mu, 1.0, sqrt(k / rounds)))
        for name, plan in plans.items():
            size = 8 if name == "buffers" else 4
            error = plan.relative_error()
            vectors, noise = plan.bytes_per_value() // size, plan.sensitivity() / mu
            rows.append((separation, name, vectors, noise, error, error * sqrt(k / rounds)))
    return rows
