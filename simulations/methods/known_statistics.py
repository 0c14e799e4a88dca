"""Known statistics: every update weighs 1/p, which only a simulation can know."""

from dataclasses import dataclass

from fedau_flwr import InverseProbabilityWeighting
from fedau_flwr.weighting import Weighting
from simulations.methods.average_all import AverageAll
from simulations.methods.base import BLACK, steps
from simulations.registry import wrong


@dataclass(frozen=True)
class KnownStatistics(AverageAll):
    """Weights 1/p from the true participation probabilities; in simulations only."""

    place = 6
    average = False
    style = BLACK
    deployable = False
    step_sizes = steps(svhn=(0.1, 1), cifar10=(0.0562, 1), cifar100=(0.0316, 1.78),
                       cinic10=(0.0562, 1), synthetic=(0.178, 1))  # fmt: skip

    def weighting(self, probability: float | None = None) -> Weighting:
        """Return the constant weight 1/p."""
        if probability is None:
            raise wrong("method", self.name, "one that works without p")
        return InverseProbabilityWeighting(probability)
