"""Flower's SecAgg+ against our secure sum: one round of each, for real, in this process.

Both sides are what a user runs: the protocol's own mod in a `ClientApp`, its own server code, and
Flower messages between them that all pass through Flower's wire format. Both sum the same float32
vectors over the same number of shares with the same threshold, and lose the same clients' masked
vectors. Ours does more on the way: it weights the updates and keeps the participation state.
"""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast
from uuid import uuid4

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.compat.common import recorddict_compat as compat
from flwr.server.client_manager import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.server_config import ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

from fedau_flwr import FedAU, FedAUMod
from fedau_flwr.secure import FixedPoint, SecureSum, SecureSumMod, Topology

Vectors = NDArray[np.float32]
Floats = NDArray[np.floating[Any]]
Result = TypeVar("Result")


def compare_with_secaggplus(
    *,
    clients: int = 25,
    parameters: int = 551_786,
    dropped: int = 2,
    threshold: int | None = None,
    repeats: int = 1,
    seed: int = 0,
) -> dict[str, float]:
    """Time one round of either protocol over the complete graph, and count what clients send.

    Returns
    -------
    dict
        ``secaggplus-seconds`` and ``ours-seconds`` (the best of `repeats`, taken in turns), their
        ``ratio``, ``secaggplus-bytes-ratio`` and ``bytes-ratio`` (all that a client of theirs and
        of ours sends in a round over its vector in float32), and the ``secaggplus-error`` and
        ``ours-error`` of the mean, largest over all parameters.
    """
    needed = clients // 2 + 1 if threshold is None else threshold
    rng = np.random.default_rng(seed)
    vectors = rng.normal(0.0, 0.05, (clients, parameters)).astype(np.float32)
    truth = vectors[dropped:].mean(axis=0, dtype=np.float64)
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        theirs, ours = [], []
        for _ in range(repeats):
            theirs.append(_timed(lambda: _secaggplus_round(vectors, dropped, needed)))
            ours.append(_timed(lambda: _our_round(vectors, dropped, needed)))
    finally:
        logger.setLevel(level)
    their_seconds, (their_mean, their_bytes) = min(theirs, key=lambda pair: pair[0])
    our_seconds, (our_mean, our_bytes) = min(ours, key=lambda pair: pair[0])
    return {
        "secaggplus-seconds": their_seconds,
        "ours-seconds": our_seconds,
        "ratio": their_seconds / our_seconds,
        "secaggplus-bytes-ratio": their_bytes / (4 * parameters),
        "bytes-ratio": our_bytes / (4 * parameters),
        "secaggplus-error": float(np.abs(their_mean - truth).max()),
        "ours-error": float(np.abs(our_mean - truth).max()),
    }


def _timed(run: Callable[[], Result]) -> tuple[float, Result]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


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
        result = FitRes(
            status=Status(Code.OK, ""),
            parameters=ndarrays_to_parameters([vectors[context.node_id - 1]]),
            num_examples=1,
            metrics={},
        )
        return Message(compat.fitres_to_recorddict(result, True), reply_to=message)

    grid = WireGrid(app, clients, dropped)
    return run_secaggplus(grid, clients, parameters, needed), grid.sent[clients]


def run_secaggplus(grid: Grid, clients: int, parameters: int, needed: int) -> Floats:
    """Drive one round of Flower's workflow from a model of zeros; return the model after it."""
    manager = SimpleClientManager()
    for node in range(1, clients + 1):
        manager.register(_Proxy(node))
    state = RecordDict({MAIN_CONFIGS_RECORD: ConfigRecord({WorkflowKey.CURRENT_ROUND: 1})})
    initial = ndarrays_to_parameters([np.zeros(parameters, np.float32)])
    state.array_records[MAIN_PARAMS_RECORD] = compat.parameters_to_arrayrecord(initial, True)
    context = LegacyContext(
        Context(run_id=1, node_id=0, node_config={}, state=state, run_config={}),
        config=ServerConfig(num_rounds=1),
        strategy=FedAvg(
            fraction_fit=1.0,
            min_fit_clients=clients,
            min_available_clients=clients,
            fit_metrics_aggregation_fn=lambda _: {},
        ),
        client_manager=manager,
    )
    SecAggPlusWorkflow(clients, needed, max_weight=1.0)(grid, context)
    record = context.state.array_records[MAIN_PARAMS_RECORD]
    (mean,) = parameters_to_ndarrays(compat.arrayrecord_to_parameters(record, True))
    return cast(Floats, mean)


class _Proxy(ClientProxy):
    """A client for Flower's manager to sample; all that is asked of it is its id."""

    def __init__(self, node: int) -> None:
        super().__init__(str(node))
        self.node_id = node

    def get_properties(self, ins: Any, timeout: Any, group_id: Any) -> Any:
        raise NotImplementedError

    get_parameters = fit = evaluate = reconnect = get_properties


class WireGrid(Grid):
    """Nodes 1, 2, … that answer at once, through Flower's wire format in both directions.

    Parameters
    ----------
    app : ClientApp
        What every node runs.
    nodes : int
        How many there are.
    dropped : int
        So many of the first nodes vanish.
    exchange : int (default: 3)
        In which exchange they do; the third is that of the masked vectors in both protocols.
    """

    def __init__(self, app: ClientApp, nodes: int, dropped: int, *, exchange: int = 3) -> None:
        # Flower's messages take their sender from here; in a ServerApp's process it is set.
        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
        self.sent = dict.fromkeys(range(1, nodes + 1), 0)
        self._app = app
        self._dropped = dropped
        self._last = exchange
        self._exchanges = 0
        self._replies: dict[str, Message] = {}
        self._contexts = {
            node: Context(run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={})
            for node in self.sent
        }

    def get_node_ids(self) -> Iterable[int]:
        """Return the ids of the nodes."""
        return list(self.sent)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let the nodes answer an exchange."""
        self._exchanges += 1
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid4())
            ids.append(message.metadata.message_id)
            node = message.metadata.dst_node_id
            if self._exchanges >= self._last and node <= self._dropped:
                continue
            received = message_from_proto(_wire(message))
            reply = self._app(received, self._contexts[node])
            reply.metadata.__dict__["_message_id"] = str(uuid4())
            wire = _wire(reply)
            self.sent[node] += wire.ByteSize()
            self._replies[ids[-1]] = message_from_proto(wire)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that are there."""
        return [self._replies.pop(key) for key in list(message_ids) if key in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Return the replies; that of a dropped node is missing at once."""
        return list(self.pull_messages(self.push_messages(messages)))

    def _unused(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    set_run = create_message = _unused
    run = property(_unused)


def _wire(message: Message) -> Any:
    """Return a message as it arrives: serialised to bytes and read again."""
    sent = message_to_proto(message)
    return type(sent).FromString(sent.SerializeToString())
