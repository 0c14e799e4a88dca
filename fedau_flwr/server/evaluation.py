"""Messages in either dialect, and federated evaluation with them."""

from collections.abc import Iterable
from typing import Any

from flwr.app import (
    DEFAULT_TTL,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg

from .._log import log
from ..wire.dialects import in_numpy_records, with_metrics
from .asking import Asking
from .roster import Roster


class EvaluatingStrategy(FedAvg):
    """Flower's FedAvg, whose evaluation waits for nobody and knows `NumPyClient`s.

    Of the options of `FedAvg`, `min_*_nodes` and `fraction_evaluate` are 0 unless given.
    """

    round_timeout: float | None = None

    def __init__(self, asking: Asking, roster: Roster, numpy_clients: bool, **options: Any) -> None:
        fraction_evaluate = options.pop("fraction_evaluate", 0.0)
        minimums = ("min_train_nodes", "min_evaluate_nodes", "min_available_nodes")
        super().__init__(**{**dict.fromkeys(minimums, 0), **options})
        # Not handed to the constructor, which would warn about what is our default.
        self.fraction_evaluate = fraction_evaluate
        self.asking = asking
        self.roster = roster
        self.numpy_clients = numpy_clients
        self.timeout = float(DEFAULT_TTL)
        self._told = False
        self.offset = 0  # rounds before the first that Flower's `start` counts

    @property
    def deadline(self) -> float:
        """Seconds of a round, which is also its messages' time to live."""
        return self.round_timeout or self.timeout

    def message(self, node: int, kind: str, arrays: ArrayRecord, config: Any) -> Message:
        """Return a message to a node in the dialect of its client."""
        content = RecordDict({self.arrayrecord_key: arrays})
        content[self.configrecord_key] = ConfigRecord(config)
        message = Message(content, node, kind, ttl=self.deadline)
        return in_numpy_records(message) if self.numpy_clients else message

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Configure federated evaluation, from one snapshot of the nodes."""
        if self.fraction_evaluate == 0.0 and not self._told:
            self._told = True
            log.info(
                "Federated evaluation is off: fraction_evaluate=1.0 turns it on, and clients then "
                "send the metrics and the example count of their evaluate function in clear."
            )
        fraction, least = self.fraction_evaluate, self.min_evaluate_nodes
        nodes = self.asking.choose(grid, self.roster, fraction, least)
        fields = {**config, "server-round": server_round + self.offset}
        return [self.message(node, MessageType.EVALUATE, arrays, fields) for node in nodes]

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Average the metrics of federated evaluation by example counts, as Flower does."""
        replies = [with_metrics(reply, self.weighted_by_key) for reply in replies]
        return super().aggregate_evaluate(server_round, replies)
