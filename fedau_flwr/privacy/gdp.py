"""Exact (ε, δ) of Gaussian noise: Gaussian differential privacy (Dong, Roth and Su 2022).

A Gaussian release whose sensitivity is μ standard deviations is μ-GDP, releases compose as
``μ² = Σ μ_i²``, and ``δ(ε) = Φ(-ε/μ + μ/2) - e^ε Φ(-ε/μ - μ/2)`` is exact. A Rényi accountant only
bounds this: it stops after 245 rounds where there is room for 277.

Every inverse is rounded to the safe side: ε up, μ down.
"""

from collections.abc import Callable
from math import ceil, erfc, exp, inf, log, pi, sqrt

from ..checks import check, check_delta, check_positive


def delta_of(epsilon: float, mu: float) -> float:
    """Return the smallest δ at which μ-GDP is (ε, δ)-differential privacy."""
    check("epsilon", epsilon, 0 <= epsilon < inf, "finite and not negative")
    check("mu", mu, 0 <= mu < inf, "finite and not negative")
    if mu == 0:
        return 0.0
    low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    # e^ε φ(high) = φ(low) takes e^ε, which overflows, and its product with a tiny tail out.
    density = exp(-low * low / 2) / sqrt(2 * pi)
    if low < 0:
        return max(0.0, erfc(low / sqrt(2)) / 2 - density * _mills(high))
    return density * max(0.0, _mills(low) - _mills(high))


def epsilon_of(delta: float, mu: float) -> float:
    """Return the smallest ε at which μ-GDP is (ε, δ)-differential privacy."""
    check_delta(delta)
    if delta_of(0.0, mu) <= delta:
        return 0.0
    # Φ(-x) ≤ exp(-x²/2) / 2 makes δ small enough here.
    most = mu * mu / 2 + mu * sqrt(-2 * log(delta))
    return _bisect(lambda epsilon: delta_of(epsilon, mu) > delta, 0.0, most)[1]


def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest μ at which μ-GDP is (ε, δ)-differential privacy."""
    check("epsilon", epsilon, 0 <= epsilon < inf, "finite and not negative")
    check_delta(delta)

    def within(mu: float) -> bool:
        return delta_of(epsilon, mu) <= delta

    most = 1.0
    while within(most):
        most *= 2
    while not within(most / 2):
        most /= 2
    return _bisect(within, most / 2, most)[0]


def participations(rounds: int, separation: int = 1, limit: int | None = None) -> int:
    """Return how often a client can take part: ``k = min(ceil(T / b), limit)``."""
    check("rounds", rounds, 1 <= rounds < inf, "at least 1")
    check("separation", separation, 1 <= separation < inf, "at least 1")
    most = ceil(rounds / separation)
    if limit is None:
        return most
    check("limit", limit, 1 <= limit < inf, "at least 1")
    return min(most, limit)


def composed(noise_multiplier: float, releases: int) -> float:
    """Return the μ of independent releases with noise of `noise_multiplier` sensitivities each."""
    check_positive("noise_multiplier", noise_multiplier)
    check("releases", releases, 0 <= releases < inf, "not negative")
    return sqrt(releases) / noise_multiplier


def noise_multiplier(epsilon: float, delta: float, releases: int) -> float:
    """Return the noise, in sensitivities, at which `releases` sums together are (ε, δ)-private."""
    check("releases", releases, 1 <= releases < inf, "at least 1")
    return sqrt(releases) / mu_of(epsilon, delta)


def releases_within(epsilon: float, delta: float, noise_multiplier: float) -> int:
    """Return how many releases with `noise_multiplier` an (ε, δ) budget has room for."""
    check_positive("noise_multiplier", noise_multiplier)
    most = mu_of(epsilon, delta)
    count = int((most * noise_multiplier) ** 2) + 1
    while composed(noise_multiplier, count) > most:
        count -= 1
    return count


def _mills(x: float) -> float:
    """Return ``Φ(-x) / φ(x)`` for x ≥ 0, which neither underflows nor loses digits in the tail."""
    if x < 5:
        return erfc(x / sqrt(2)) / 2 * exp(x * x / 2) * sqrt(2 * pi)
    fraction = x
    for k in range(60, 0, -1):
        fraction = x + k / fraction
    return 1 / fraction


def _bisect(left: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Return the neighbouring numbers between which `left` turns from true to false."""
    while low < (middle := low + (high - low) / 2) < high:
        low, high = (middle, high) if left(middle) else (low, middle)
    return low, high
