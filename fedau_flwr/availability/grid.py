"""A Flower grid on which clients come and go."""

import time
from collections.abc import Callable, Iterable

import numpy as np
from flwr.app import ArrayRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg
from numpy.typing import ArrayLike, NDArray

from .._log import log
from ..calling import caller
from ..checks import check, check_count
from ..client.delivery import is_delivery
from ..server.evaluation import EvaluatingStrategy
from .draws import Draws
from .followed import FollowedRound
from .identity import IdentifiedGrid, Identities
from .process import Process

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]


class AvailabilityGrid(IdentifiedGrid):
    """Shows a strategy only the nodes whose client is there in this round.

    A ClientApp with `FedAUMod` tells its client number when it is asked; any other needs
    ``ClientApp(mods=[answer_identity])``. Strategies of this package and `RoundLoop` say
    which round it is, and under ``start()`` of Flower's own the grid counts; a loop of one's own
    calls ``set_round``. Flower's strategies wait until enough nodes are there, which in a thin
    round is forever, so let them take what comes::

        grid = AvailabilityGrid(grid, Bernoulli(p, seed=1))
        grid.wait_for_clients()
        strategy = FedAvg(
            fraction_train=1.0, fraction_evaluate=0.0, min_train_nodes=0, min_available_nodes=0
        )
        strategy.start(grid, arrays, num_rounds=100)

    With a fraction below 1 they sample by the module ``random``, which has to be seeded for a run
    to repeat.

    Parameters
    ----------
    grid : Grid
        The grid that reaches the nodes.
    process : Process
        Who is there in which round.
    loss : float or array of N numbers in [0, 1]
        Probability that the replies of a client to the train messages of a round never arrive,
        although the client did train, and as often a message after a round does not reach it. Other
        replies are not lost, as they measure rather than train.
    seed : int
        Seed of the losses, which are drawn by round and client.
    identity_timeout : float
        Seconds to wait for the nodes to say which client they are; who does not is left out and
        asked again.
    """

    def __init__(
        self,
        grid: Grid,
        process: Process,
        *,
        loss: ArrayLike = 0.0,
        seed: int = 0,
        identity_timeout: float = 120.0,
    ) -> None:
        super().__init__(grid, Identities(grid, process.clients, identity_timeout))
        self._process = process
        self._loss = _as_loss(loss, process.clients)
        self._loss_draws = Draws(seed, "loss")
        self._delivery_draws = Draws(seed, "lost-deliveries")
        self._server_round: int | None = None
        self._followed = FollowedRound()
        self._asked = False

    def set_round(self, server_round: int) -> None:
        """Move to a round, counted from 1 as Flower does."""
        self._server_round = check_count("server_round", server_round)

    def wait_for_clients(self, clients: int | None = None, *, timeout: float = 300.0) -> None:
        """Wait until so many clients, or all of the process, are connected and identified.

        Nodes may connect only after the ServerApp has started, and a strategy that takes what comes
        would take the first rounds for empty ones.
        """
        wanted = self._process.clients if clients is None else clients
        deadline = time.monotonic() + timeout
        while (known := len(self._identities.connected())) < wanted:
            if time.monotonic() >= deadline:
                raise TimeoutError(
                    f"Only {known} of {wanted} clients were connected after {timeout:g} seconds."
                )
            time.sleep(0.1)

    def following(self, evaluate_fn: EvaluateFn | None = None) -> EvaluateFn:
        """Return ``evaluate_fn``, or one that measures nothing, with a step to the next round.

        ``Strategy.start()`` calls it with 0 before round 1 and with r after round r. Nothing needs
        it any more where rounds can be counted.
        """

        def evaluate_and_move_on(server_round: int, arrays: ArrayRecord) -> MetricRecord | None:
            metrics = evaluate_fn(server_round, arrays) if evaluate_fn else None
            self.set_round(server_round + 1)
            return metrics

        return evaluate_and_move_on

    def everyone(self) -> IdentifiedGrid:
        """Return the grid with all nodes in the same order and without loss, for evaluation."""
        return IdentifiedGrid(self._grid, self._identities)

    def get_node_ids(self) -> list[int]:
        """Return the ids of the nodes that are there in this round, by client number."""
        if not self._asked:
            self._asked = True
            _warn_of_waiting(caller(FedAvg))
        active = self._process.active(self._round_index())
        return [node for node in super().get_node_ids() if active[self.client_numbers[node]]]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Push messages through the underlying grid."""
        to_push = list(messages)
        if self._server_round is None:
            self._followed.check(to_push)
        return super().push_messages(to_push)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Send through the underlying grid and return the replies that arrive, by client number."""
        to_send = [message for message in messages if not self._never_arrives(message)]
        if self._server_round is None:
            self._followed.check(to_send)
        replies = super().send_and_receive(to_send, timeout=timeout)
        if self._server_round is None:
            self._followed.passed(to_send)
        return replies

    def lost(self, server_round: int) -> NDArray[np.bool_]:
        """Return which clients' train replies are lost in a round, if they come at all."""
        return self._loss_draws.uniforms(server_round - 1, self._process.clients) < self._loss

    def _never_arrives(self, message: Message) -> bool:
        if not self._loss.any() or not is_delivery(message):
            return False
        draws = self._delivery_draws.uniforms(self._round_index(), self._process.clients)
        client = self.client_numbers[message.metadata.dst_node_id]
        return bool(draws[client] < self._loss[client])

    def _arrived(self, replies: Iterable[Message]) -> list[Message]:
        arrived = list(replies)
        if not self._loss.any():
            return arrived
        lost = self.lost(self._round_index() + 1)
        return [reply for reply in arrived if not self._is_lost(reply, lost)]

    def _is_lost(self, reply: Message, lost: NDArray[np.bool_]) -> bool:
        category = reply.metadata.message_type.split(".")[0]
        client = self.client_numbers.get(reply.metadata.src_node_id)
        return category == MessageType.TRAIN and client is not None and bool(lost[client])

    def _round_index(self) -> int:
        return (self._server_round or self._followed.number) - 1


def _warn_of_waiting(strategy: FedAvg | None) -> None:
    """Say that a strategy of Flower's own will wait for ever in a thin round."""
    if strategy is None or isinstance(strategy, EvaluatingStrategy):
        return
    needed = max(strategy.min_available_nodes, strategy.min_train_nodes)
    if needed > 0 and strategy.fraction_train > 0:
        log.warning(
            f"{type(strategy).__name__} waits in every round until {needed} nodes are there, which "
            "is for ever where fewer come: give it min_train_nodes=0, min_evaluate_nodes=0 and "
            "min_available_nodes=0."
        )


def _as_loss(loss: ArrayLike, clients: int) -> NDArray[np.float64]:
    values = np.asarray(loss, dtype=np.float64)
    fits = values.shape in {(), (clients,)}
    check("loss", loss, fits, f"one number, or one for each of {clients} clients")
    check("loss", loss, ((values >= 0) & (values <= 1)).all(), "in [0, 1]")
    return np.broadcast_to(values, (clients,))
