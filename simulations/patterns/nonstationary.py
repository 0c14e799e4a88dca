"""Participation whose probability changes over time."""

import math
from dataclasses import dataclass

from fedau_flwr.availability import ArrivalDeparture, Process, Sine, Staircase
from simulations.patterns.base import Pattern, Probabilities
from simulations.registry import check


@dataclass(frozen=True)
class SinePattern(Pattern):
    """Probabilities swing around their means, as over a day."""

    period: int = 100
    amplitude: float = 0.5

    name = "sine"
    place = 6

    def __post_init__(self) -> None:
        check("period of pattern sine", self.period, self.period >= 1, "at least 1")
        check("amplitude of pattern sine", self.amplitude, 0 <= self.amplitude <= 1, "in [0, 1]")

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return draws with swinging probabilities."""
        return Sine(p, seed, amplitude=self.amplitude, period=self.period)


@dataclass(frozen=True)
class StaircasePattern(Pattern):
    """Probabilities are multiplied by one level after the other."""

    length: int = 50
    levels: tuple[float, ...] = (1.0, 0.4)

    name = "staircase"
    place = 7

    def __post_init__(self) -> None:
        check("length of pattern staircase", self.length, self.length >= 1, "at least 1")
        fine = all(0 <= level < math.inf for level in self.levels)
        check("levels of pattern staircase", self.levels, fine, "numbers of 0 or more")

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return draws with probabilities that go up and down in steps."""
        return Staircase(p, seed, levels=self.levels, length=self.length)


@dataclass(frozen=True)
class ArrivalDeparturePattern(Pattern):
    """Half of the clients arrive, and half depart for good, during the run."""

    name = "arrival-departure"
    place = 8
    needs_rounds = True

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return draws between arrivals and departures."""
        return ArrivalDeparture(p, seed, rounds=rounds)
