"""What a message costs: the bytes of a reply, and the time to make a message and to read it."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from ray import cloudpickle

from fedau_flwr import _flower
from fedau_flwr.server.roster import Roster
from fedau_flwr.testing.in_process_grid import InProcessGrid
from fedau_flwr.wire.records import decode_all, encode
from simulations.bench.report import Row
from simulations.bench.settings import BenchSettings
from simulations.bench.side_by_side import Say, milliseconds
from simulations.client_app import app
from simulations.config import RunConfig
from simulations.nodes.client_states import make_states
from simulations.nodes.resident import initial_parameters
from simulations.nodes.worker import LR, STATES
from simulations.runs.loops import build_strategy

_REPEATS = 9


def bytes_row(settings: BenchSettings, directory: Path, say: Say) -> Row:
    """Row 6: ask the real ClientApp for a reply under FedAU and FedAvg, and count its bytes."""
    say("row 6: bytes")
    config = replace(settings.config, clients_per_node=1)
    ours = _reply_bytes(config, directory)
    theirs = _reply_bytes(replace(config, method="fedavg"), directory)
    return Row("bytes", ours / theirs, details={"fedau-bytes": ours, "fedavg-bytes": theirs})


def _reply_bytes(config: RunConfig, directory: Path) -> int:
    nodes = InProcessGrid(app, 0, config.to_dict())
    node = nodes.connect({"partition-id": 0, "num-partitions": config.clients})
    grid: Any = SimpleNamespace(get_node_ids=nodes.get_node_ids, roster=Roster({node: 0}))
    strategy = build_strategy(config, grid)
    settings = ConfigRecord({LR: config.local_lr, STATES: make_states(directory / "states")})
    model = encode(initial_parameters(config.task, seed=config.seed))
    (reply,) = nodes.send_and_receive(strategy.configure_train(1, model, settings, grid))
    return len(_flower.recorddict_to_proto(reply.content).SerializeToString())


def serialisation_milliseconds(config: RunConfig) -> dict[str, float]:
    """Return the costs per message of the run's model, in processor time of this process."""
    # Flower's messages take their sender from here; in a ServerApp's process it is set.
    identity = _flower.TaskIdentity
    identity.run_id = identity.node_id = identity.task_id = 1
    model = initial_parameters(config.task, seed=config.seed)
    record = encode(model)
    content = RecordDict({"arrays": record, "config": ConfigRecord({"server-round": 1})})
    message = Message(content, 1, MessageType.TRAIN)
    dumps: Callable[[object], bytes] = cloudpickle.dumps
    steps: dict[str, tuple[Callable[[Any], object], object]] = {
        "encode": (encode, model),
        "pickle": (dumps, message),
        "unpickle": (cloudpickle.loads, dumps(message)),
        "decode": (decode_all, record),
    }
    return {
        f"per message: {name}": milliseconds(call, [value] * _REPEATS, time.thread_time)
        for name, (call, value) in steps.items()
    }
