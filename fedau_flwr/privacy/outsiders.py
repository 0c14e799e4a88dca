"""What split noise hides from those who hold no share of it."""

from collections import Counter
from collections.abc import Mapping
from math import sqrt

from .gdp import epsilon_of


class OutsidersView:
    """Accounts for sums as outsiders see them, who know nothing but the models.

    Each of n clients adds noise of variance ``σ²/(s - c)``, s being the fewest whose sum it helps
    to unmask and c how many may know their own share. The sum of n ≥ s has at least
    ``σ² n/(n - c)``, of which c participants know their part: to them it is the promised σ².
    """

    def __init__(self) -> None:
        self._rounds: Counter[float] = Counter()

    def charge(self, noise_multiplier: float, clients: int, colluding: int) -> None:
        """Account for a released sum over `clients` clients."""
        surplus = clients / (clients - colluding) if clients > colluding else 1.0
        self._rounds[noise_multiplier * sqrt(surplus)] += 1

    def epsilon(self, delta: float) -> float:
        """Return the ε of the sums so far."""
        mu = sqrt(sum(count / noise**2 for noise, count in self._rounds.items()))
        return epsilon_of(delta, mu) if mu else 0.0

    def state(self) -> dict[str, int]:
        """Return the sums so far by noise multiplier, for a checkpoint."""
        return {repr(noise): count for noise, count in self._rounds.items()}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on from a checkpoint."""
        self._rounds = Counter({float(noise): count for noise, count in state.items()})
