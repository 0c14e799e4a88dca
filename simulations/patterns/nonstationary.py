"""Participation whose probability changes over time."""

import math
from dataclasses import dataclass

from fedau_flwr.availability import ArrivalDeparture, InterleavedSine, Process, Sine, Staircase
from simulations.patterns.base import Pattern, Probabilities
from simulations.registry import check, parameter


@dataclass(frozen=True)
class SinePattern(Pattern):
    """Probabilities swing around their means, as over a day."""

    period: int = 100
    amplitude: float = 0.5
    level: float = 1.0

    name = "sine"
    place = 6

    def __post_init__(self) -> None:
        super().__post_init__()
        head, level = f"of pattern {self.name}", self.level
        check(f"period {head}", self.period, self.period >= 1, "at least 1")
        check(f"level {head}", level, 0 < level < math.inf, "above 0")
        fine = 0 <= self.amplitude <= level
        check(f"amplitude {head}", self.amplitude, fine, f"in [0, {level:g}]")

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return draws with swinging probabilities."""
        swing = {"amplitude": self.amplitude, "level": self.level}
        return Sine(p, seed, period=self.period, **swing)


@dataclass(frozen=True)
class InterleavedSinePattern(SinePattern):
    """As sine, but probabilities below the least are 0; the defaults are FedAWE's."""

    period: int = 20
    amplitude: float = 0.3
    level: float = 0.7
    least: float = parameter("in [0, 1]", lambda v: 0 <= v <= 1, 0.1)

    name = "interleaved-sine"
    place = 10

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return draws with probabilities that swing, and vanish when they are small."""
        swing = {"amplitude": self.amplitude, "level": self.level}
        return InterleavedSine(p, seed, period=self.period, least=self.least, **swing)


@dataclass(frozen=True)
class StaircasePattern(Pattern):
    """Probabilities are multiplied by one level after the other."""

    length: int = parameter("at least 1", lambda v: v >= 1, 50)
    levels: tuple[float, ...] = parameter(
        "numbers of 0 or more", lambda v: all(0 <= level < math.inf for level in v), (1.0, 0.4)
    )

    name = "staircase"
    place = 7

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
