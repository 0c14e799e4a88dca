"""Participation whose probability stays: drawn anew in every round, lasting, or in cycles."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedau_flwr.availability import Bernoulli, Cyclic, Markov, Process
from fedau_flwr.availability.authors import AuthorsBernoulli, AuthorsCyclic, AuthorsMarkov
from fedau_flwr.availability.cyclic import CyclicVariant
from simulations.patterns.base import Pattern, Probabilities
from simulations.registry import parameter


@dataclass(frozen=True)
class BernoulliPattern(Pattern):
    """Each client comes with its probability, independently in every round."""

    name = "bernoulli"
    place = 1

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return independent draws."""
        return Bernoulli(p, seed)

    def authors_process(self, p: Probabilities, stream: np.random.RandomState) -> Process:
        """Return the authors' own draws."""
        return AuthorsBernoulli(p, stream)


@dataclass(frozen=True)
class MarkovPattern(Pattern):
    """A chain of two states per client, which comes back with at most this probability."""

    max_activation: float = parameter("in (0, 1]", lambda v: 0 < v <= 1, 0.05)

    name = "markov"
    place = 2

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return the chains."""
        return Markov(p, seed, self.max_activation)

    def authors_process(self, p: Probabilities, stream: np.random.RandomState) -> Process:
        """Return the authors' own chains."""
        return AuthorsMarkov(p, stream, self.max_activation)


@dataclass(frozen=True)
class CyclicPattern(Pattern):
    """Each client is there for one stretch of every period, from a random round on."""

    period: int = parameter("at least 1", lambda v: v >= 1, 100)

    name = "cyclic"
    place = 3
    variant: ClassVar[CyclicVariant] = "random-offset"

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return the cycles."""
        return Cyclic(p, seed, self.period, self.variant)

    def authors_process(self, p: Probabilities, stream: np.random.RandomState) -> Process:
        """Return the authors' own cycles, which start inactive."""
        return AuthorsCyclic(p, stream, self.period)


@dataclass(frozen=True)
class CyclicStartsInactive(CyclicPattern):
    """As cyclic, but no stretch reaches over the end of a period."""

    place = 4
    variant = "starts-inactive"
