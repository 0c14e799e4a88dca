"""A node that hosts many clients.

The server needs only sums, so a host trains its participants one after the other and replies
with the sum of their contributions: one message per host and round instead of one per client.
Each client keeps its own history, as if it were alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from flwr.app import ConfigRecord

from ..wire.requests import HOSTED, Refusal, hosted_requests
from .contribution import with_placeholders
from .participant import Participant
from .preparation import Preparation
from .store import Arrays

log = logging.getLogger("flwr.fedau")


class Host:
    """Trains the clients that a message names and adds up their contributions.

    Parameters
    ----------
    participant : Callable[[int], Participant]
        Returns a client's side of the protocol by its number.
    """

    def __init__(self, participant: Callable[[int], Participant]) -> None:
        self._participant = participant

    def contribute(
        self, config: Mapping[str, Any], model: Arrays, train: Callable[[int], Arrays]
    ) -> tuple[Arrays, ConfigRecord]:
        """Return the sum over the clients that `config` names, and the label that lists them.

        A client that cannot contribute (its update is not finite) is left out and said to be;
        if none can, the host refuses as a whole.
        """
        preparation = Preparation.from_config(config)
        total: Arrays = {}
        included = []
        refusals = []
        for client, request in hosted_requests(config).items():
            participant = self._participant(client)
            try:
                contribution = participant.contribute(
                    request, model, partial(train, client), preparation=preparation
                )
            except Refusal as refusal:
                log.error("Client %d: %s", client, refusal)
                refusals.append(refusal)
                continue
            included.append(client)
            for name, value in contribution.items():
                if name in total:
                    total[name] += value
                else:
                    total[name] = value.copy()
        if refusals and not included:
            raise refusals[0]
        return with_placeholders(total, model), ConfigRecord({HOSTED: included})
