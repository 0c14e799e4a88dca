"""Which client a node stands for.

Flower gives nodes random ids; only the node knows its number, in its node config. So the nodes are
asked.
"""

import logging
from collections.abc import Iterable

from flwr.app import ConfigRecord, Context, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid

from fedau_flwr import _flower

log = logging.getLogger("flwr.fedau")

IDENTITY_RECORD = "fedau-identity"
CLIENT_KEY = "partition-id"
_ASK_AGAIN = (
    "MESSAGE_UNAVAILABLE",
    "REPLY_MESSAGE_UNAVAILABLE",
    "NODE_UNAVAILABLE",
    "CLIENT_APP_CRASHED",
)


def answer_identity(message: Message, context: Context) -> Message:
    """Answer a query with the client number of this node, ``partition-id`` in its node config.

    Register it with ``app.query()(answer_identity)``. An app that answers queries itself adds a
    ``ConfigRecord`` or ``MetricRecord`` with the integer ``partition-id`` to its answer instead.
    """
    client = context.node_config.get(CLIENT_KEY)
    if isinstance(client, bool) or not isinstance(client, int):
        reason = f"`{CLIENT_KEY}` in its node config is {client!r} and must be its client number"
        return Message(Error(_flower.ErrorCode.MOD_FAILED_PRECONDITION, reason), reply_to=message)
    record = ConfigRecord({CLIENT_KEY: client})
    return Message(RecordDict({IDENTITY_RECORD: record}), reply_to=message)


class Identities:
    """The client numbers of a grid's nodes, asked for once per node.

    Parameters
    ----------
    grid : Grid
        The grid that reaches the nodes.
    clients : int
        Number of clients N; numbers go from 0 to N - 1.
    timeout : float
        Seconds to wait for answers.
    """

    def __init__(self, grid: Grid, clients: int, timeout: float) -> None:
        self.client_numbers: dict[int, int] = {}
        self._grid = grid
        self._clients = clients
        self._timeout = timeout

    def connected(self) -> list[int]:
        """Ask the nodes that are new, and return all that are known in the order of clients."""
        nodes = set(self._grid.get_node_ids())
        unknown = sorted(nodes - self.client_numbers.keys())
        if unknown:
            self._ask(unknown)
        # A node that came back under a new id replaces its old self, which may look connected yet.
        newest = {client: node for node, client in self.client_numbers.items() if node in nodes}
        return [newest[client] for client in sorted(newest)]

    def _ask(self, nodes: list[int]) -> None:
        question = RecordDict({IDENTITY_RECORD: ConfigRecord()})
        queries = [Message(question, node, MessageType.QUERY, ttl=self._timeout) for node in nodes]
        answers = self._grid.send_and_receive(queries, timeout=self._timeout)
        taken = set(self.client_numbers.values())
        for client, node in sorted((client, node) for node, client in self._read(answers)):
            if client in taken:
                log.warning(
                    "Node %d takes the place of an earlier node of client %d.",
                    node,
                    client,
                )
            taken.add(client)
            self.client_numbers[node] = client
        silent = [node for node in nodes if node not in self.client_numbers]
        if silent:
            log.warning(
                "%d of %d nodes did not say which client they are and are left out: node %d, …",
                len(silent),
                len(nodes),
                silent[0],
            )

    def _read(self, answers: Iterable[Message]) -> Iterable[tuple[int, int]]:
        for answer in answers:
            node = answer.metadata.src_node_id
            if answer.has_error():
                if answer.error.code in [getattr(_flower.ErrorCode, n) for n in _ASK_AGAIN]:
                    continue
                raise _no_identity(node, answer.error)
            client = _client_number(answer.content)
            if client is None:
                reason = f"its answer holds no integer `{CLIENT_KEY}`"
                raise _no_identity(node, Error(_flower.ErrorCode.UNKNOWN, reason))
            if not 0 <= client < self._clients:
                raise ValueError(
                    f"Node {node} says that it is client {client}: "
                    f"the participation process has the clients 0 to {self._clients - 1}."
                )
            yield node, client


def _client_number(content: RecordDict) -> int | None:
    records: list[ConfigRecord | MetricRecord] = [*content.config_records.values()]
    records += content.metric_records.values()
    for record in records:
        client = record.get(CLIENT_KEY)
        if isinstance(client, int) and not isinstance(client, bool):
            return client
    return None


def _no_identity(node: int, error: Error) -> ValueError:
    # Ray puts a whole traceback into the reason; what happened is in its last line.
    reason = (error.reason or "no reason given").strip().splitlines()[-1][:200]
    if error.code == _flower.ErrorCode.MOD_FAILED_PRECONDITION:
        return ValueError(f"Node {node} cannot say which client it is: {reason}.")
    return ValueError(
        f"Node {node} did not say which client it is ({reason}): "
        "add `app.query()(fedau_flwr.availability.answer_identity)` to the ClientApp."
    )
