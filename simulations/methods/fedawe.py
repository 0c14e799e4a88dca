"""FedAWE: clients with models of their own, whose updates count for the rounds that they missed."""

from dataclasses import dataclass
from typing import Any

from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy

from fedau_flwr import FedAWE
from fedau_flwr.wire.records import decode_all, encode
from simulations.methods.base import TEAL, Method, steps
from simulations.registry import parameter


@dataclass(frozen=True)
class FedAWEMethod(Method):
    """Clients' own models; clip=0 is none (the authors have 0.5), mean evaluates all models'."""

    clip: float = parameter("0 or more", lambda v: v >= 0, 0.0)
    mean: bool = False

    name = "fedawe"
    place = 10
    style = TEAL
    # Its paper's for three image tasks, in its own setting, where clients come more often; it
    # has no CIFAR-100, where γ is MIFA's, and on the synthetic task γ was searched for.
    step_sizes = steps(svhn=(0.1, 1), cifar10=(0.1, 1), cifar100=(0.0316, 1),
                       cinic10=(0.1, 1), synthetic=(0.01, 1))  # fmt: skip

    def strategy(self, **options: Any) -> FedAWE:
        """Return the server's half, which delivers the model after a round."""
        return FedAWE(clip_norm=self.clip or None, track_mean=self.mean, **options)

    def evaluated(self, strategy: Strategy, arrays: ArrayRecord) -> ArrayRecord:
        """Return the mean of all clients' models, if that is asked for, as the paper has it."""
        if not (self.mean and isinstance(strategy, FedAWE) and strategy.mean_model):
            return arrays
        model = decode_all(arrays)
        mean = {key: value.astype(model[key].dtype) for key, value in strategy.mean_model.items()}
        return encode({**model, **mean})
