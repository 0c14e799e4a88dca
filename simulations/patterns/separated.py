"""Participation with a pause after every turn."""

from dataclasses import dataclass
from functools import cached_property

from fedau_flwr.availability import Process, Separated
from simulations.patterns.base import Pattern, Probabilities
from simulations.patterns.nonstationary import InterleavedSinePattern, SinePattern, StaircasePattern
from simulations.patterns.stationary import (
    BernoulliPattern,
    CyclicPattern,
    CyclicStartsInactive,
    MarkovPattern,
)
from simulations.registry import check

BASES: dict[str, type[Pattern]] = {
    kind.name: kind
    for kind in (BernoulliPattern, MarkovPattern, CyclicPattern, CyclicStartsInactive, SinePattern,
                 StaircasePattern, InterleavedSinePattern)
}  # fmt: skip


@dataclass(frozen=True)
class SeparatedPattern(Pattern):
    """As another pattern, but a client stays away for so many rounds after each turn."""

    separation: int = 10
    base: str = BernoulliPattern.name

    name = "separated"
    place = 14

    def __post_init__(self) -> None:
        fine = 0 <= self.separation < 2**15
        check("separation of pattern separated", self.separation, fine, "from 0 to 32767")
        rule = f"one of {', '.join(BASES)}"
        check("base of pattern separated", self.base, self.base in BASES, rule)

    @cached_property
    def inner(self) -> Pattern:
        """The pattern that would be there otherwise."""
        return BASES[self.base]()

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return the other pattern with pauses."""
        inner = self.inner.process(p, seed=seed, rounds=rounds)
        return Separated(inner, self.separation)
