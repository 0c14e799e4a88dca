"""FedAU for Flower's older API: a `flwr.server.strategy` for `NumPyClient`s.

The clients are the same as ever, `FedAUMixin` or `FedAUMod` around a `NumPyClient`. Flower's
`SecAggPlusWorkflow` drives this strategy as well: it hands over the participants' mean
in place of every single reply, and the sum of these is the sum of the contributions.
"""

from collections.abc import Iterable, Mapping
from functools import partial
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
from flwr.server.workflow import SecAggPlusWorkflow

from ._log import log
from .arrays import Arrays, is_averaged, moved
from .calling import caller
from .checks import check_count
from .methods.fedau import check_divisor
from .server.ledger import Ledger
from .server.outcome import Outcome
from .server.reasons import sentence
from .server.replies import unweighted as why_unweighted
from .server.report import RoundReport
from .server.wrappers import refuse_wrappers
from .statistics import Statistics, named, stepped
from .wire.dialects import numbered
from .wire.parts import UPDATE, Layout, Parts, added_parts


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
    unweighted : Iterable[str] (default: ())
        Positions, as text, of arrays that are averaged over the participants with weight 1, beside
        the statistics of normalisation layers; see `fedau_flwr.statistics`.
    **options
        Options of Flower's older `FedAvg`; `fraction_evaluate` is 0.0 unless given. Its
        `fit_metrics_aggregation_fn` gets what clients report, each with an example count of 1.
    """

    def __init__(
        self,
        num_clients: int,
        *,
        server_learning_rate: float = 1.0,
        divisor: str = "clients",
        unweighted: Iterable[str] = (),
        **options: Any,
    ) -> None:
        self.num_clients = check_count("num_clients", num_clients)
        check_divisor(divisor)
        super().__init__(**{"fraction_evaluate": 0.0, **options})
        self.server_learning_rate = server_learning_rate
        self.divisor = divisor
        self.ledger = Ledger()
        self.outcome = Outcome()
        self.statistics = Statistics(unweighted)
        self._layout = Layout({})

    def __repr__(self) -> str:
        return f"FedAU(num_clients={self.num_clients}, divisor={self.divisor!r})"

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Ask the sampled clients, each with the last round in which it was counted."""
        refuse_wrappers(self)
        _check_secagg(caller(SecAggPlusWorkflow))
        self.ledger.open(server_round)
        model = _named(parameters)
        positions = self.statistics.positions(model)
        self._layout = Layout(model, unweighted=tuple(named(model, positions)))
        asked = super().configure_fit(server_round, parameters, client_manager)
        say = partial(self.ledger.config, hosting=False, unweighted=positions)
        return [
            (client, FitIns(ins.parameters, {**ins.config, **say([int(client.cid)])}))
            for client, ins in asked
        ]

    def aggregate_fit(
        self,
        server_round: int,
        results: list[tuple[ClientProxy, FitRes]],
        failures: list[tuple[ClientProxy, FitRes] | BaseException],
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Add up the contributions in the order of the clients' ids."""
        total: Parts | None = None
        metrics: list[tuple[int, dict[str, Scalar]]] = []
        counted, rejected = [], {}
        for client, reply in sorted(results, key=lambda result: int(result[0].cid)):
            number, contribution = int(client.cid), _named(reply.parameters)
            if (reason := self._wrong(contribution, reply.num_examples)) is not None:
                log.warning("Rejected the reply of client %s: %s.", client.cid, reason)
                rejected[number] = reason
                continue
            counted.append(number)
            metrics += [(1, reply.metrics)] if reply.metrics else []
            total = added_parts(total, {UPDATE: contribution})
        for failure in failures:
            log.warning("A client failed: %s.", _failure(failure))
        self.ledger.count(counted)
        report = RoundReport(
            round=server_round,
            asked=len(results) + len(failures),
            counted=len(counted),
            rejected=len(rejected) + len(failures),
            absent=0,
            seconds=0.0,
            reasons={**rejected, **{-n: _failure(f) for n, f in enumerate(failures, 1)}},
        )
        log.info("Round %d: %d counted, %d rejected", report.round, report.counted, report.rejected)
        self.outcome.note(report)
        if not counted:
            return None, {}
        model = stepped(self._step, self._layout, total, len(counted))
        own = self.fit_metrics_aggregation_fn
        return ndarrays_to_parameters([*model.values()]), own(metrics) if own and metrics else {}

    def _step(self, model: Arrays, sums: Parts | None, participants: int) -> Arrays:
        divisor = self.num_clients if self.divisor == "clients" else participants
        return moved(model, sums[UPDATE], self.server_learning_rate / divisor) if sums else model

    def _wrong(self, contribution: Arrays, num_examples: int) -> str | None:
        """Return why a contribution cannot enter the sum, or None."""
        if num_examples != 1:
            return why_unweighted("num_examples", num_examples)
        shapes = {name: value.shape for name, value in contribution.items()}
        if shapes != {name: value.shape for name, value in self._layout.model.items()}:
            return "arrays whose shapes differ from the model's"
        for name, value in contribution.items():
            if is_averaged(self._layout.model[name].dtype) and not np.isfinite(value).all():
                return f"array {name} with values that are not finite"
        return None

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the model."""
        return {"ledger": self.ledger.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, as a new attempt that starts with the round after it."""
        self.ledger.load_state_dict(state["ledger"])


def _check_secagg(workflow: SecAggPlusWorkflow | None) -> None:
    if workflow is not None and workflow.max_weight != 1:
        raise ValueError(
            f"max_weight of SecAggPlusWorkflow is {workflow.max_weight}, but must be 1: every "
            "contribution counts once, and a larger one only costs precision."
        )


def _failure(failure: tuple[ClientProxy, FitRes] | BaseException) -> str:
    said = failure[1].status.message if isinstance(failure, tuple) else str(failure)
    return sentence(said or "an error without a reason")


def _named(parameters: Parameters) -> Arrays:
    return numbered(parameters_to_ndarrays(parameters))
