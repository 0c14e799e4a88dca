"""Participation that lasts: who is there tends to stay."""

from dataclasses import dataclass

import numpy as np

from fedau_flwr.availability import Markov, Process
from fedau_flwr.availability.authors import AuthorsMarkov
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
        del rounds
        return Markov(p, seed, self.max_activation)

    def authors_process(self, p: Probabilities, stream: np.random.RandomState) -> Process:
        """Return the authors' own chains."""
        return AuthorsMarkov(p, stream, self.max_activation)
