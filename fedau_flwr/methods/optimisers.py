"""Flower's server optimisers over the weighted sum.

Flower's own strategy makes each step: it is shown the model and what plain FedAU would make
of it, as the only reply of a round. It works in float64 here and on averaged arrays alone;
the result goes back into every array's own type.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi

from ..arrays import Arrays, is_averaged
from ..wire.parts import UPDATE, Parts
from ..wire.records import decode_all, encode
from .fedau import FedAU

_STATE = ("m_t", "v_t", "momentum_vector")


class _OptimisedFedAU(FedAU):
    optimiser_class: type[FedAvg]

    def __init__(self, num_clients: int, **options: Any) -> None:
        own = _own_options(self.optimiser_class)
        if "server_learning_rate" in options and "server_learning_rate" not in own:
            raise ValueError(
                f"server_learning_rate is given, but {type(self).__name__} has its own: use eta."
            )
        mine = {name: options.pop(name) for name in own if name in options}
        self.optimiser: Any = self.optimiser_class(**mine)
        super().__init__(num_clients, **options)

    def summary(self) -> None:
        """Log summary configuration of the strategy."""
        super().summary()
        self.optimiser.summary()

    def step(self, model: Arrays, sums: Parts | None, participants: int) -> Arrays:
        """Let the optimiser make a step from the mean update; nobody came: it does not move."""
        if sums is None or participants == 0:
            return model
        divisor, total = self.divide_by(participants), sums[UPDATE]
        before = {n: v.astype(np.float64) for n, v in model.items() if is_averaged(v.dtype)}
        after = {name: value + total[name] / divisor for name, value in before.items()}
        # FedAvgM keeps its model as a record, the others as a dict.
        is_record = issubclass(self.optimiser_class, FedAvgM)
        self.optimiser.current_arrays = encode(before) if is_record else before
        one = MetricRecord({"num-examples": 1})
        content = RecordDict({"arrays": encode(after), "metrics": one})
        reply = Message(content, dst_node_id=1, message_type=MessageType.TRAIN)
        arrays, _ = self.optimiser.aggregate_train(self.ledger.round, [reply])
        stepped = decode_all(arrays)
        return {
            name: stepped[name].astype(value.dtype) if name in stepped else value
            for name, value in model.items()
        }

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the model."""
        moments = {name: getattr(self.optimiser, name, None) for name in _STATE}
        return {**super().state_dict(), "optimiser": moments}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        super().load_state_dict(state)
        for name, value in state["optimiser"].items():
            if value is not None:
                setattr(self.optimiser, name, value)


def _own_options(optimiser: type[FedAvg]) -> set[str]:
    """Return the options that an optimiser adds to those of FedAvg."""
    added = inspect.signature(optimiser).parameters.keys() - inspect.signature(FedAvg).parameters
    return set(added) - {"eta_l"}


def _optimised(optimiser: type[FedAvg], name: str) -> type[_OptimisedFedAU]:
    options = ", ".join(sorted(_own_options(optimiser)))
    doc = f"`FedAU` with Flower's `{optimiser.__name__}` on the server (options: {options})."
    members = {"__doc__": doc, "__module__": __name__, "optimiser_class": optimiser}
    return type(name, (_OptimisedFedAU,), members)


FedAUAdam = _optimised(FedAdam, "FedAUAdam")
FedAUYogi = _optimised(FedYogi, "FedAUYogi")
FedAUAdagrad = _optimised(FedAdagrad, "FedAUAdagrad")
FedAUAvgM = _optimised(FedAvgM, "FedAUAvgM")
