"""Who broke the protocol how often, over the rounds of a training."""

from collections.abc import Iterable, Mapping
from typing import Any

from .._log import log
from ..checks import check


class Offences:
    """Counts the rounds in which a node provably cheated; those with `most` of them are left out.

    They are so for the rest of the training; with 0 nobody ever is.
    """

    def __init__(self, most: int) -> None:
        check("max_offences", most, most >= 0, "at least 0")
        self._most = most
        self._counts: dict[int, int] = {}

    def note(self, server_round: int, faults: Mapping[int, str]) -> None:
        """Add the offences of a round, a log line for each."""
        for node, fault in sorted(faults.items()):
            self._counts[node] = self._counts.get(node, 0) + 1
            end = ", and is left out from now on" if self.excludes(node) else ""
            log.warning(
                "Node %d broke the protocol in round %d (offence %d): %s%s.",
                *(node, server_round, self._counts[node], fault, end),
            )

    def excludes(self, node: int) -> bool:
        """Say whether a node is left out."""
        return 0 < self._most <= self._counts.get(node, 0)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {"offences": [list(item) for item in self._counts.items()]} if self._counts else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        counts: Iterable[tuple[int, int]] = state.get("offences", ())
        self._counts = {int(node): int(count) for node, count in counts}
