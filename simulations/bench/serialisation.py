"""What it costs to turn a model into a message and back, once."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from ray import cloudpickle

from fedau_flwr.wire.records import decode_all, encode
from simulations.config import RunConfig
from simulations.nodes.resident import initial_parameters

_REPEATS = 9


def serialisation_milliseconds(config: RunConfig) -> dict[str, float]:
    """Return the costs per message of the run's model, in processor time of this process."""
    # Flower's messages take their sender from here; in a ServerApp's process it is set.
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    model = initial_parameters(config.task, seed=config.seed)
    record = encode(model)
    content = RecordDict({"arrays": record, "config": ConfigRecord({"server-round": 1})})
    message = Message(content, 1, MessageType.TRAIN)
    dumps: Callable[[object], bytes] = cloudpickle.dumps
    pickled = dumps(message)
    return {
        "per message: encode": _milliseconds(lambda: encode(model)),
        "per message: pickle": _milliseconds(lambda: dumps(message)),
        "per message: unpickle": _milliseconds(lambda: cloudpickle.loads(pickled)),
        "per message: decode": _milliseconds(lambda: decode_all(record)),
    }


def _milliseconds(call: Callable[[], object]) -> float:
    times = []
    for _ in range(_REPEATS):
        start = time.thread_time()
        call()
        times.append(time.thread_time() - start)
    return 1e3 * float(np.median(times))
