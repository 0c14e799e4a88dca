"""Flower's SecAgg+ against our secure sum: one round of each, for real, in this process.

Both sum the same float32 vectors over the same number of shares with the same threshold, and lose
the same clients right before the masked vectors. Flower's side is its own mod and workflow on a
grid that calls the mod directly; nothing leaves the process on either side.
"""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.app.message.message import make_message
from flwr.client.mod import secaggplus_mod
from flwr.common import (
    Code,
    FitRes,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.common.serde import recorddict_to_proto
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

from fedau_flwr.secure import FixedPoint, Payload, RoundId, SecureClient, SecureRound, Topology

Vectors = NDArray[np.float32]
Floats = NDArray[np.float64]
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
    """Time one round of either protocol over the complete graph, and count our bytes.

    Returns
    -------
    dict
        ``secaggplus-seconds`` and ``ours-seconds`` (the best of `repeats`), their ``ratio``,
        ``bytes-ratio`` (everything a client of ours sends over its vector in float32), and the
        ``secaggplus-error`` and ``ours-error`` of the mean, largest over all parameters.
    """
    needed = clients // 2 + 1 if threshold is None else threshold
    rng = np.random.default_rng(seed)
    vectors = rng.normal(0.0, 0.05, (clients, parameters)).astype(np.float32)
    truth = vectors[dropped:].mean(axis=0, dtype=np.float64)

    theirs, their_mean = _best(repeats, lambda: _secaggplus_round(vectors, dropped, needed))
    ours, (our_mean, sent) = _best(repeats, lambda: _our_round(vectors, dropped, needed))
    return {
        "secaggplus-seconds": theirs,
        "ours-seconds": ours,
        "ratio": theirs / ours,
        "bytes-ratio": sent / (4 * parameters),
        "secaggplus-error": float(np.abs(their_mean - truth).max()),
        "ours-error": float(np.abs(our_mean - truth).max()),
    }


def _best(repeats: int, run: Callable[[], Result]) -> tuple[float, Result]:
    timed = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = run()
        timed.append((time.perf_counter() - start, result))
    return min(timed, key=lambda pair: pair[0])


def _our_round(vectors: Vectors, dropped: int, needed: int) -> tuple[Floats, int]:
    """Run our protocol; return the mean and the bytes that one client sent."""
    clients, parameters = vectors.shape
    everyone = range(1, clients + 1)
    payload = Payload(shapes=((parameters,),), fixed_point=FixedPoint(max_cohort=clients))
    server = SecureRound(
        RoundId("bench", 1, 1),
        size=payload.size,
        # One less than needed is the largest fraction whose next whole share is the threshold.
        topology=Topology(threshold=max(0.5, (needed - 1) / clients), min_degree=2 * clients),
    )
    secure = {client: SecureClient(client) for client in everyone}
    rng = np.random.default_rng()

    keys = {client: secure[client].offer_keys(server.keys_request()) for client in everyone}
    server.collect_keys(keys)
    shares = {
        client: secure[client].deal_shares(request)
        for client, request in server.shares_requests().items()
    }
    server.collect_shares(shares)
    masked = {}
    for client, request in sorted(server.masked_requests().items()):
        if client <= dropped:
            continue
        secure[client].accept_shares(request)
        grid, _ = payload.fixed_point.round(vectors[client - 1], rng)
        masked[client] = secure[client].mask(payload.encode([grid]))
    server.collect_masked(masked)
    revealed = {
        client: secure[client].unmask(request)
        for client, request in server.unmask_requests().items()
    }
    total, _ = server.collect_unmask(revealed)
    (summed,), _ = payload.decode(total)

    last = clients
    messages = (keys[last], shares[last], masked[last][0], revealed[last])
    sent = sum(_wire_bytes(message) for message in messages) + masked[last][1].nbytes
    return summed / len(server.counted), sent


def _wire_bytes(message: dict[str, Any]) -> int:
    """Return the size of a message as Flower sends it."""
    record = RecordDict({"secure": ConfigRecord(message)})
    return len(recorddict_to_proto(record).SerializeToString())


def _secaggplus_round(vectors: Vectors, dropped: int, needed: int) -> Floats:
    """Run Flower's protocol; return the mean."""
    clients, parameters = vectors.shape
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
    # Flower's messages take their sender from here; in a ServerApp's process it is set.
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    workflow = SecAggPlusWorkflow(clients, needed, max_weight=1.0)
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        workflow(_ModGrid(vectors, dropped), context)
    finally:
        logger.setLevel(level)
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


class _ModGrid(Grid):
    """Hands messages to Flower's mod; the first nodes vanish before their masked vector."""

    def __init__(self, vectors: Vectors, dropped: int) -> None:
        self._vectors = vectors
        self._dropped = dropped
        self._contexts = {
            node: Context(run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={})
            for node in range(1, len(vectors) + 1)
        }

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Answer every message."""
        replies = []
        for message in messages:
            node = message.metadata.dst_node_id
            stage = message.content.config_records[RECORD_KEY_CONFIGS][Key.STAGE]
            if stage == Stage.COLLECT_MASKED_VECTORS and node <= self._dropped:
                continue
            copy = _copy(message)
            replies.append(secaggplus_mod(copy, self._contexts[node], self._train))
        return replies

    def _train(self, message: Message, context: Context) -> Message:
        result = FitRes(
            status=Status(Code.OK, ""),
            parameters=ndarrays_to_parameters([self._vectors[context.node_id - 1]]),
            num_examples=1,
            metrics={},
        )
        return Message(compat.fitres_to_recorddict(result, True), reply_to=message)

    def _unused(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    set_run = create_message = push_messages = pull_messages = get_node_ids = _unused
    run = property(_unused)


def _copy(message: Message) -> Message:
    """Give the mod records of its own, since it takes its stage out of a shared one."""
    content = RecordDict(dict(message.content))
    config = content.config_records[RECORD_KEY_CONFIGS]
    content.config_records[RECORD_KEY_CONFIGS] = ConfigRecord(dict(config))
    return make_message(message.metadata, content)
