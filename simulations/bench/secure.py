"""Flower's SecAgg+ against our secure sum: one round of each, for real, in this process.

Both sides are what a user runs: the protocol's own mod in a `ClientApp`, its own server code, and
Flower messages between them that all pass through Flower's wire format. Both sum the same float32
vectors over the same number of shares with the same threshold, and lose the same clients' masked
vectors. Ours does more on the way: it weights the updates and keeps the participation state.
"""

import logging
import time
from collections.abc import Callable, Iterable
from operator import itemgetter
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import LegacyContext, ServerConfig, SimpleClientManager
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedau_flwr import FedAU, FedAUMod, _flower
from fedau_flwr.secure import FixedPoint, SecureSum, SecureSumMod, Topology
from fedau_flwr.testing.in_process_grid import InProcessGrid
from simulations.bench.report import Row
from simulations.bench.secure_scale import scale_rows
from simulations.bench.settings import BenchSettings
from simulations.bench.side_by_side import Say
from simulations.nodes.resident import initial_parameters

Vectors = NDArray[np.float32]
Floats = NDArray[np.floating[Any]]


def secure_rows(settings: BenchSettings, say: Say) -> list[Row]:
    """Sum vectors of the model's size by both protocols, with the same clients lost."""
    say("the secure sum")
    parameters = sum(v.size for v in initial_parameters(settings.config.task, seed=1).values())
    measured = compare_with_secaggplus(
        clients=settings.secure_clients,
        dropped=settings.secure_dropped,
        parameters=parameters,
        repeats=settings.repetitions,
    )
    profile = {name: 1e3 * measured[f"{name}-seconds"] for name in ("secaggplus", "ours")}
    return [
        Row("secure", measured["ratio"], details=measured, profile=profile),
        Row("secure-bytes", measured["bytes-ratio"]),
        *scale_rows(settings.secure_cohorts, parameters, say),
    ]


def compare_with_secaggplus(
    *, clients: int = 25, parameters: int = 551_786, dropped: int = 2, repeats: int = 1
) -> dict[str, float]:
    """Time one round of either protocol over the complete graph, and count what clients send.

    Seconds are the best of `repeats`, taken in turns; bytes are all that a client sends in a round
    over its vector in float32; the error is that of the mean, the largest over all parameters.
    """
    rng = np.random.default_rng(0)
    vectors = rng.normal(0.0, 0.05, (clients, parameters)).astype(np.float32)
    truth = vectors[dropped:].mean(axis=0, dtype=np.float64)
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        turns = [
            [_timed(play, vectors, dropped) for play in (_secaggplus_round, _our_round)]
            for _ in range(repeats)
        ]
    finally:
        logger.setLevel(level)
    theirs, ours = (min(runs, key=itemgetter(0)) for runs in zip(*turns, strict=True))
    return {
        "secaggplus-seconds": theirs[0],
        "ours-seconds": ours[0],
        "ratio": theirs[0] / ours[0],
        "secaggplus-bytes-ratio": theirs[2] / (4 * parameters),
        "bytes-ratio": ours[2] / (4 * parameters),
        "secaggplus-error": float(np.abs(theirs[1] - truth).max()),
        "ours-error": float(np.abs(ours[1] - truth).max()),
    }


def _timed(
    play: Callable[[Vectors, int, int], tuple[Floats, int]], vectors: Vectors, dropped: int
) -> tuple[float, Floats, int]:
    """Return the seconds of a round in which a majority is needed, and what it returns."""
    start = time.perf_counter()
    mean, sent = play(vectors, dropped, len(vectors) // 2 + 1)
    return time.perf_counter() - start, mean, sent


def _our_round(vectors: Vectors, dropped: int, needed: int) -> tuple[Floats, int]:
    """Run our protocol; return the mean and the bytes that one client sent."""
    clients, parameters = vectors.shape
    app = ClientApp(mods=[SecureSumMod(), FedAUMod()])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        # The model is zero, so that the trained model is the update.
        arrays = ArrayRecord([vectors[context.node_id - 1]])
        return Message(RecordDict({"arrays": arrays}), reply_to=message)

    grid = WireGrid(app, clients, dropped)
    summation = SecureSum(
        fixed_point=FixedPoint(max_cohort=clients),
        # One less than needed is the largest fraction whose next whole share is the threshold.
        topology=Topology(threshold=max(0.5, (needed - 1) / clients), min_degree=2 * clients),
    )
    strategy = FedAU(clients, divisor="participants", summation=summation)
    model = ArrayRecord([np.zeros(parameters, np.float32)])
    messages = strategy.configure_train(1, model, ConfigRecord(), grid)
    arrays, _ = strategy.aggregate_train(1, grid.send_and_receive(messages))
    (mean,) = cast(ArrayRecord, arrays).to_numpy_ndarrays()
    return mean, grid.sent[clients]


def _secaggplus_round(vectors: Vectors, dropped: int, needed: int) -> tuple[Floats, int]:
    """Run Flower's protocol; return the mean and the bytes that one client sent."""
    clients, parameters = vectors.shape
    app = ClientApp(mods=[secaggplus_mod])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        trained = ndarrays_to_parameters([vectors[context.node_id - 1]])
        result = FitRes(Status(Code.OK, ""), trained, num_examples=1, metrics={})
        content = _flower.recorddict_compat.fitres_to_recorddict(result, True)
        return Message(content, reply_to=message)

    grid = WireGrid(app, clients, dropped)
    return run_secaggplus(grid, clients, parameters, needed), grid.sent[clients]


def run_secaggplus(grid: Grid, clients: int, parameters: int, needed: int) -> Floats:
    """Drive one round of Flower's workflow from a model of zeros; return the model after it."""
    manager = SimpleClientManager()
    for node in range(1, clients + 1):
        # All that is asked of a client that the manager samples is its id.
        manager.register(cast(Any, SimpleNamespace(cid=str(node), node_id=node)))
    state = RecordDict({_flower.MAIN_CONFIGS_RECORD: ConfigRecord({"current_round": 1})})
    initial = ndarrays_to_parameters([np.zeros(parameters, np.float32)])
    compat = _flower.recorddict_compat  # how Flower lays out what its older API sends
    arrays = compat.parameters_to_arrayrecord(initial, True)
    state.array_records[_flower.MAIN_PARAMS_RECORD] = arrays
    context = LegacyContext(
        Context(run_id=1, node_id=0, node_config={}, state=state, run_config={}),
        config=ServerConfig(num_rounds=1),
        strategy=FedAvg(min_available_clients=clients, fit_metrics_aggregation_fn=lambda _: {}),
        client_manager=manager,
    )
    SecAggPlusWorkflow(clients, needed, max_weight=1.0)(grid, context)
    record = context.state.array_records[_flower.MAIN_PARAMS_RECORD]
    (mean,) = parameters_to_ndarrays(compat.arrayrecord_to_parameters(record, True))
    return cast(Floats, mean)


class WireGrid(InProcessGrid):
    """Nodes 1, 2, … whose messages are bytes on the way, in both directions.

    The first `dropped` of them vanish in an exchange; the third is that of the masked vectors in
    both protocols.
    """

    def __init__(self, app: ClientApp, nodes: int, dropped: int, *, exchange: int = 3) -> None:
        super().__init__(app, 0)
        self.contexts = {
            node: Context(run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={})
            for node in range(1, nodes + 1)
        }
        self.sent = dict.fromkeys(self.contexts, 0)
        self._dropped, self._exchanges_left = dropped, exchange

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let the nodes answer an exchange."""
        self._exchanges_left -= 1
        if self._exchanges_left == 0:
            self.silent = set(range(1, self._dropped + 1))
        return super().push_messages(messages)

    def _answer(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        reply = self.app(_flower.message_from_proto(_wire(message)), self.contexts[node])
        reply.metadata.__dict__["_message_id"] = str(uuid4())
        wire = _wire(reply)
        self.sent[node] += wire.ByteSize()
        received: Message = _flower.message_from_proto(wire)
        return received


def _wire(message: Message) -> Any:
    """Return a message as it arrives: serialised to bytes and read again."""
    sent = _flower.message_to_proto(message)
    return type(sent).FromString(sent.SerializeToString())
