"""Participation that nobody simulates."""

from dataclasses import dataclass

from fedau_flwr.availability import Process
from simulations.patterns.base import Pattern, Probabilities
from simulations.registry import ConfigError


@dataclass(frozen=True)
class DeploymentPattern(Pattern):
    """The SuperNodes of a deployment, which come and go as they do."""

    name = "deployment"
    place = 9
    simulated = False

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Refuse: there is nothing to simulate."""
        del p, seed, rounds
        raise ConfigError(
            f"pattern is {self.name!r}, but must be another one in a simulation: `fedau deploy "
            "local` and `flwr run` on a deployment have real participation."
        )
