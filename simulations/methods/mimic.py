"""MimiC: a client corrects its update by how the last one differed from the server's step."""

from dataclasses import dataclass

from fedau_flwr import MimiC
from simulations.methods.base import INDIGO, SumMethod, steps


@dataclass(frozen=True)
class MimiCMethod(SumMethod):
    """Updates corrected by the step that the server made of the last ones."""

    name = "mimic"
    place = 11
    server = MimiC
    style = INDIGO
    step_sizes = steps(svhn=(0.1, 1), cifar10=(0.0562, 1), cifar100=(0.0316, 1.78),
                       cinic10=(0.0562, 1), synthetic=(0.178, 1))  # fmt: skip
