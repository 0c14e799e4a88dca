"""Participation that repeats itself, with two ways to begin."""

from dataclasses import dataclass

import numpy as np

from fedau_flwr.availability import Cyclic, Process
from fedau_flwr.availability.authors import AuthorsCyclic
from simulations.patterns.base import Pattern, Probabilities
from simulations.registry import check


@dataclass(frozen=True)
class CyclicPattern(Pattern):
    """Each client is there for one stretch of every period, from a random round on."""

    period: int = 100

    name = "cyclic"
    place = 3

    def __post_init__(self) -> None:
        check(f"period of pattern {self.name}", self.period, self.period >= 1, "at least 1")

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return the cycles."""
        del rounds
        return Cyclic(p, seed, self.period)

    def authors_process(self, p: Probabilities, stream: np.random.RandomState) -> Process:
        """Return the authors' own cycles, which start inactive."""
        return AuthorsCyclic(p, stream, self.period)


@dataclass(frozen=True)
class CyclicStartsInactive(CyclicPattern):
    """As cyclic, but no stretch reaches over the end of a period."""

    name = "cyclic-starts-inactive"
    place = 4

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return the cycles."""
        del rounds
        return Cyclic(p, seed, self.period, "starts-inactive")
