"""MimiC: a client corrects its update by how the last one differed from the server's step."""

from dataclasses import dataclass
from typing import Any

from fedau_flwr import MimiC
from simulations.methods.base import INDIGO, Method, steps


@dataclass(frozen=True)
class MimiCMethod(Method):
    """Updates corrected by the step that the server made of the last ones."""

    name = "mimic"
    place = 11
    style = INDIGO
    step_sizes = steps(svhn=(0.1, 1), cifar10=(0.0562, 1), cifar100=(0.0316, 1.78),
                       cinic10=(0.0562, 1), synthetic=(0.178, 1))  # fmt: skip

    def strategy(self, **options: Any) -> MimiC:
        """Return the server's half, which delivers its step after a round."""
        return MimiC(**options)
