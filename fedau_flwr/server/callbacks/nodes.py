"""Rounds that begin when somebody is there."""

from __future__ import annotations

import logging
import time

from ..callback import Callback
from ..loop import RoundLoop
from .request import StopOnRequest

log = logging.getLogger("flwr.loop")

LOOK_SECONDS = 1.0
"""Between two looks for nodes while there are too few."""

WORD_SECONDS = 60.0
"""Between two lines in the log about that."""


class WaitForNodes(Callback):
    """Lets no round begin before enough nodes are connected.

    Parameters
    ----------
    least : int (default: 1)
        How many are enough.
    request : StopOnRequest | None (default: None)
        Who may end the run while it waits.
    """

    def __init__(self, least: int = 1, *, request: StopOnRequest | None = None) -> None:
        self._least = least
        self._request = request

    def before_round(self, loop: RoundLoop) -> None:
        """Wait until a round makes sense or the run is to stop."""
        silent_until = 0.0
        while (connected := len(list(loop.grid.get_node_ids()))) < self._least:
            if self._request is not None and self._request.check(loop):
                return
            if time.monotonic() >= silent_until:
                log.info(
                    "Round %d waits for nodes: %d connected, at least %d needed.",
                    loop.round + 1,
                    connected,
                    self._least,
                )
                silent_until = time.monotonic() + WORD_SECONDS
            time.sleep(LOOK_SECONDS)
