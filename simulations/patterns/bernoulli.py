"""Participation that is drawn anew in every round."""

from dataclasses import dataclass

from fedau_flwr.availability import Bernoulli, Process
from simulations.patterns.base import Pattern, Probabilities


@dataclass(frozen=True)
class BernoulliPattern(Pattern):
    """Each client comes with its probability, independently in every round."""

    name = "bernoulli"
    place = 1

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return independent draws."""
        return Bernoulli(p, seed)
