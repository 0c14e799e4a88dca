"""The message after a round: something for those who were counted in it.

Some methods need their participants to know what became of a round: FedAWE's take the new model
over, MimiC's correct their next update by the step. Whoever was counted gets one more message, a
train message with a mark, and confirms it. A delivery that is not confirmed is repeated before the
client's next request, for as long as the server holds what it brings. Like a round, a delivery does
not wait for replies beyond the round's deadline.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from flwr.app import Message, MessageType

from .._log import log
from ..arrays import Arrays
from ..wire.records import encode
from ..wire.requests import DELIVERY
from .deadlines import with_deadline
from .replies import Rejection, read_hosted
from .summation import Round

if TYPE_CHECKING:
    from .strategy import SumStrategy


class Delivering:
    """What a `SumStrategy` says about deliveries."""

    held_rounds = 0
    """The most rounds whose delivery is held for clients that have not confirmed theirs."""

    def delivery(self, before: Arrays, after: Arrays) -> Arrays | None:
        """Return what those who were counted in a round get after it; nothing by default.

        It has the model before and after the round's step.
        """
        return None


class Deliveries:
    """Sends deliveries, and knows who has not confirmed the last one."""

    def __init__(self) -> None:
        self.waiting: dict[int, int] = {}  # the round of the delivery that a client is waiting for
        self.held: dict[int, Arrays] = {}  # by round
        self._config: dict[str, Any] = {}

    def repeat(self, strategy: SumStrategy, this: Round, config: Mapping[str, Any]) -> None:
        """Begin a round: deliver again to those who are asked in it and are still waiting."""
        self._config = {**config}
        due: dict[int, dict[int, list[int]]] = {}
        for node, clients in this.asked.items():
            for client in clients:
                if (number := self.waiting.get(client)) in self.held:
                    due.setdefault(number, {}).setdefault(node, []).append(client)
        for number, nodes in due.items():
            self._deliver(strategy, this, number, self.held[number], nodes)
        self._release(strategy.held_rounds)

    def send(
        self, strategy: SumStrategy, this: Round, counted: Collection[int], after: Arrays
    ) -> None:
        """End a round: deliver what the strategy has for those who were counted."""
        arrays = strategy.delivery(this.layout.model, after) if counted else None
        if arrays is None:
            return
        chosen = {*counted}
        asked = {node: [c for c in some if c in chosen] for node, some in this.asked.items()}
        nodes = {node: some for node, some in asked.items() if some}
        if strategy.held_rounds:
            self.held[this.number] = arrays
        self.waiting |= dict.fromkeys(counted, this.number)
        self._deliver(strategy, this, this.number, arrays, nodes)
        self._release(strategy.held_rounds)

    def _deliver(
        self,
        strategy: SumStrategy,
        this: Round,
        number: int,
        arrays: Arrays,
        nodes: Mapping[int, list[int]],
    ) -> None:
        model = this.layout.model
        record = encode({name: arrays.get(name, np.zeros_like(v)) for name, v in model.items()})
        # It asks for no contribution, so it need not say when a client was last counted.
        say = partial(
            strategy.ledger.config,
            hosting=strategy.roster.hosting,
            transform=strategy.transform.to_text(),
            unweighted=strategy.unweighted,
            counted=None,
        )
        messages = []
        for node, clients in nodes.items():
            fields = {**self._config, **say(clients), DELIVERY: number}
            messages.append(strategy.message(node, MessageType.TRAIN, record, fields))
        for reply in with_deadline(this.grid).send_and_receive(messages, timeout=this.timeout):
            self._confirmed(reply, nodes.get(reply.metadata.src_node_id, []))
        clients = [client for some in nodes.values() for client in some]
        if left := sum(self.waiting.get(client) == number for client in clients):
            sentence = "Round %d: what comes after it was not confirmed by %d of %d clients."
            log.warning(sentence, number, left, len(clients))

    def _confirmed(self, reply: Message, clients: list[int]) -> None:
        """Note who needs no repetition: it has the delivery, or says that it has no use for it."""
        if reply.has_error():
            # The words may be the client's own, of any length and with lines of their own.
            said = " ".join((reply.error.reason or "an error without a reason").split())[:500]
            log.warning("A client did not take what comes after a round: %s", said)
        else:
            try:
                clients = read_hosted(reply, clients)
            except Rejection as rejection:
                log.warning("A host did not say who got what comes after a round: %s.", rejection)
                return
        for client in clients:
            self.waiting.pop(client, None)

    def _release(self, most: int) -> None:
        """Let go of what nobody is waiting for, and of the oldest rounds beyond the most."""
        rounds = sorted({*self.held} & {*self.waiting.values()})[-most:] if most else []
        self.held = {number: self.held[number] for number in rounds}
        self.waiting = {client: n for client, n in self.waiting.items() if n in self.held}

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {"waiting": dict(self.waiting), "held": {n: dict(a) for n, a in self.held.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.waiting = {int(client): number for client, number in state.get("waiting", {}).items()}
        self.held = {int(number): dict(some) for number, some in state.get("held", {}).items()}
