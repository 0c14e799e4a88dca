"""Participation that lasts: who is there tends to stay."""

from dataclasses import dataclass

from fedau_flwr.availability import Markov, Process
from simulations.patterns.base import Pattern, Probabilities
from simulations.registry import check


@dataclass(frozen=True)
class MarkovPattern(Pattern):
    """A chain of two states per client, which comes back with at most this probability."""

    max_activation: float = 0.05

    name = "markov"
    place = 2

    def __post_init__(self) -> None:
        value = self.max_activation
        check("max_activation of pattern markov", value, 0 < value <= 1, "in (0, 1]")

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return the chains."""
        return Markov(p, seed, self.max_activation)
