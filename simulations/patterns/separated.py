"""Participation with a pause after every turn."""

from dataclasses import dataclass

from fedau_flwr.availability import Process, Separated
from simulations.patterns.base import Pattern, Probabilities
from simulations.patterns.nonstationary import InterleavedSinePattern, SinePattern, StaircasePattern
from simulations.patterns.stationary import (
    BernoulliPattern,
    CyclicPattern,
    CyclicStartsInactive,
    MarkovPattern,
)
from simulations.registry import parameter

BASES: dict[str, type[Pattern]] = {
    kind.name: kind
    for kind in (BernoulliPattern, MarkovPattern, CyclicPattern, CyclicStartsInactive, SinePattern,
                 StaircasePattern, InterleavedSinePattern)
}  # fmt: skip


@dataclass(frozen=True)
class SeparatedPattern(Pattern):
    """As another pattern, but a client stays away for so many rounds after each turn."""

    separation: int = parameter("from 0 to 32767", lambda v: 0 <= v < 2**15, 10)
    base: str = parameter(f"one of {', '.join(BASES)}", BASES.__contains__, BernoulliPattern.name)

    name = "separated"
    place = 14

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return the other pattern with pauses."""
        inner = BASES[self.base]().process(p, seed=seed, rounds=rounds)
        return Separated(inner, self.separation)
