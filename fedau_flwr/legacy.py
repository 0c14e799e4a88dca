"""FedAU for Flower's older API: a `flwr.server.strategy` for `NumPyClient`s.

The clients are the same as ever, `FedAUMixin` or `FedAUMod` around a `NumPyClient`. Flower's
`SecAggPlusWorkflow` drives this strategy as well: it hands over the participants' mean
in place of every single reply, and the sum of these is the sum of the contributions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.common import (
    FitIns,
    FitRes,
    Parameters,
    Scalar,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.server import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import FedAvg

from ._log import log
from .arrays import Arrays, is_averaged, moved
from .methods.fedau import check_divisor
from .server.ledger import Ledger, check_population
from .server.replies import unweighted
from .wire.dialects import numbered


class FedAU(FedAvg):
    """Adds up weighted updates, on Flower's older strategy API.

    Parameters
    ----------
    num_clients : int
        `N`, the population of the objective.
    server_learning_rate : float (default: 1.0)
        `η`.
    divisor : str (default: "clients")
        "clients" divides the sum by `N`, "participants" by the number of counted clients.
    **options
        Options of Flower's older `FedAvg`; `fraction_evaluate` is 0.0 unless given.
    """

    def __init__(
        self,
        num_clients: int,
        *,
        server_learning_rate: float = 1.0,
        divisor: str = "clients",
        **options: Any,
    ) -> None:
        check_population(num_clients)
        check_divisor(divisor)
        super().__init__(**{"fraction_evaluate": 0.0, **options})
        self.num_clients = num_clients
        self.server_learning_rate = server_learning_rate
        self.divisor = divisor
        self.ledger = Ledger()
        self._model: Arrays = {}

    def __repr__(self) -> str:
        return f"FedAU(num_clients={self.num_clients}, divisor={self.divisor!r})"

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Ask the sampled clients, each with the last round in which it was counted."""
        self.ledger.open(server_round)
        self._model = _named(parameters)
        asked = super().configure_fit(server_round, parameters, client_manager)
        requests = [self.ledger.request(int(client.cid)).to_config() for client, _ in asked]
        return [
            (client, FitIns(ins.parameters, {**ins.config, **request}))
            for (client, ins), request in zip(asked, requests, strict=True)
        ]

    def aggregate_fit(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, FitRes]],
        failures: list[tuple[ClientProxy, FitRes] | BaseException],
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Add up the contributions in the order of the clients' ids."""
        total: Arrays = {}
        counted = []
        for client, reply in sorted(results, key=lambda result: int(result[0].cid)):
            contribution = _named(reply.parameters)
            if (reason := self._wrong(contribution, reply.num_examples)) is not None:
                log.warning("Rejected the reply of client %s: %s.", client.cid, reason)
                continue
            counted.append(int(client.cid))
            for name, value in contribution.items():
                total[name] = total[name] + value if name in total else value
        numbers = (server_round, len(counted), len(results) - len(counted), len(failures))
        log.info("Round %d: %d counted, %d rejected, %d failed", *numbers)
        if not counted:
            return None, {}
        self.ledger.count(counted)
        divisor = self.num_clients if self.divisor == "clients" else len(counted)
        model = moved(self._model, total, self.server_learning_rate / divisor)
        return ndarrays_to_parameters(list(model.values())), {}

    def _wrong(self, contribution: Arrays, num_examples: int) -> str | None:
        """Return why a contribution cannot enter the sum, or None."""
        if num_examples != 1:
            return unweighted("num_examples", num_examples)
        shapes = {name: value.shape for name, value in contribution.items()}
        if shapes != {name: value.shape for name, value in self._model.items()}:
            return "arrays whose shapes differ from the model's"
        for name, value in contribution.items():
            if is_averaged(self._model[name].dtype) and not np.isfinite(value).all():
                return f"array {name} with values that are not finite"
        return None

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the model."""
        return {"ledger": self.ledger.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, as a new attempt that starts with the round after it."""
        self.ledger.load_state_dict(state["ledger"])


def _named(parameters: Parameters) -> Arrays:
    return numbered(parameters_to_ndarrays(parameters))
