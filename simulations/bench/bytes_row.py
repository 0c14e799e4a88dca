"""Row 6: what a client sends under FedAU against what it sends under FedAvg."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from flwr.app import ConfigRecord, Context, RecordDict
from flwr.common.serde import recorddict_to_proto
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from fedau_flwr.server.roster import Roster
from fedau_flwr.wire.records import encode
from simulations.bench.row import Row
from simulations.bench.settings import BenchSettings
from simulations.bench.side_by_side import Say
from simulations.client_app import app
from simulations.config import RunConfig
from simulations.nodes.resident import initial_parameters
from simulations.nodes.worker import LR, STATES
from simulations.runs.loops import build_strategy

_NODE = 7


def bytes_row(settings: BenchSettings, directory: Path, say: Say) -> Row:
    """Ask the real ClientApp for a reply under either method and count its bytes."""
    say("row 6: bytes")
    config = replace(settings.config, clients_per_node=1)
    ours = _reply_bytes(config, directory)
    theirs = _reply_bytes(replace(config, method="fedavg"), directory)
    return Row(
        "bytes",
        "bytes that a FedAU client sends / that a FedAvg client sends",
        ours / theirs,
        "at most",
        1.001,
        details={"fedau-bytes": ours, "fedavg-bytes": theirs},
    )


def _reply_bytes(config: RunConfig, directory: Path) -> int:
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    grid: Any = SimpleNamespace(get_node_ids=lambda: [_NODE], roster=Roster({_NODE: 0}))
    strategy = build_strategy(config, grid)
    settings = ConfigRecord({LR: config.local_lr, STATES: str(directory / "states")})
    model = encode(initial_parameters(config.task, seed=config.seed))
    (message,) = strategy.configure_train(1, model, settings, cast(Grid, grid))
    context = Context(
        run_id=1,
        node_id=_NODE,
        node_config={"partition-id": 0, "num-partitions": config.clients},
        state=RecordDict(),
        run_config=config.to_dict(),
    )
    reply = app(message, context)
    return len(recorddict_to_proto(reply.content).SerializeToString())
