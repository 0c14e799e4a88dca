"""Participation that nobody simulates."""

from dataclasses import dataclass

from fedau_flwr.availability import Process
from simulations.patterns.base import Pattern, Probabilities
from simulations.registry import wrong


@dataclass(frozen=True)
class DeploymentPattern(Pattern):
    """The SuperNodes of a deployment, which come and go as they do."""

    name = "deployment"
    place = 9
    simulated = False

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Refuse: there is nothing to simulate."""
        rule = "another one in a simulation: `fedau deploy local` and `flwr run` on a deployment"
        raise wrong("pattern", self.name, f"{rule} have real participation")
