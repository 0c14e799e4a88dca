"""Participation that repeats itself, with two ways to begin."""

from dataclasses import dataclass
from typing import ClassVar

from fedau_flwr.availability import Cyclic, Process
from fedau_flwr.availability.cyclic import CyclicVariant
from simulations.patterns.base import Pattern, Probabilities
from simulations.registry import check


@dataclass(frozen=True)
class CyclicPattern(Pattern):
    """Each client is there for one stretch of every period, from a random round on."""

    period: int = 100

    name = "cyclic"
    place = 3
    variant: ClassVar[CyclicVariant] = "random-offset"

    def __post_init__(self) -> None:
        check(f"period of pattern {self.name}", self.period, self.period >= 1, "at least 1")

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return the cycles."""
        return Cyclic(p, seed, self.period, self.variant)


@dataclass(frozen=True)
class CyclicStartsInactive(CyclicPattern):
    """As cyclic, but no stretch reaches over the end of a period."""

    name = "cyclic-starts-inactive"
    place = 4
    variant = "starts-inactive"
