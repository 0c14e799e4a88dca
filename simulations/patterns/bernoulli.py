"""Participation that is drawn anew in every round."""

from dataclasses import dataclass

import numpy as np

from fedau_flwr.availability import Bernoulli, Process
from fedau_flwr.availability.authors import AuthorsBernoulli
from simulations.patterns.base import Pattern, Probabilities


@dataclass(frozen=True)
class BernoulliPattern(Pattern):
    """Each client comes with its probability, independently in every round."""

    name = "bernoulli"
    place = 1

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return independent draws."""
        del rounds
        return Bernoulli(p, seed)

    def authors_process(self, p: Probabilities, stream: np.random.RandomState) -> Process:
        """Return the authors' own draws."""
        return AuthorsBernoulli(p, stream)
