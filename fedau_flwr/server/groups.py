"""Weights for groups of clients that each show up about once.

A client that takes part once in its life has no history to estimate from, but the clients of
its device model or region have one together. The server, which sees who was counted, keeps
one history per group; a node names its group and uses the group's weight.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

log = logging.getLogger("flwr.fedau")


@dataclass(frozen=True, slots=True)
class GroupState:
    """The history of a group: its closed intervals, their total length, the running rounds."""

    intervals: int = 0
    length: int = 0
    elapsed: int = 0


class GroupHistory:
    r"""Algorithm 2 for a group of `size` members that share one history.

    Every round adds `size` to the running length; `k ≥ 1` counted members close `k` intervals
    that together have this length; `cutoff` rounds without any close `size` intervals of
    `cutoff`. The weight is the total length over the intervals, at most `cutoff`. A group of
    one is Algorithm 2 itself.
    """

    def __init__(self, size: int, cutoff: int | None = 50) -> None:
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"A group's size is {size!r}, but must be an integer >= 1.")
        if cutoff is not None and (not isinstance(cutoff, int) or cutoff < 1):
            raise ValueError(f"group_cutoff is {cutoff!r}, but must be an integer >= 1 or None.")
        self.size = size
        self.cutoff = cutoff
        self.state = GroupState()

    @property
    def weight(self) -> float:
        """The weight of every member in the next round."""
        if not self.state.intervals:
            return 1.0
        mean = self.state.length / self.state.intervals
        # A group that is larger than configured would get weights below 1.
        return max(1.0, mean if self.cutoff is None else min(mean, self.cutoff))

    def advance(self, counted: int) -> None:
        """Account for one round in which `counted` members were counted."""
        state = replace(self.state, elapsed=self.state.elapsed + 1)
        if counted or state.elapsed == self.cutoff:
            state = GroupState(
                intervals=state.intervals + (counted or self.size),
                length=state.length + state.elapsed * self.size,
            )
        self.state = state


class Groups:
    """The histories of all groups of a training, advanced once per round.

    Parameters
    ----------
    sizes : Mapping[str, int]
        Members of each group, configured because they cannot be observed.
    cutoff : int | None (default: 50)
        As in `FedAUWeighting`.
    """

    def __init__(self, sizes: Mapping[str, int], cutoff: int | None = 50) -> None:
        self._histories = {name: GroupHistory(size, cutoff) for name, size in sizes.items()}

    def __contains__(self, name: object) -> bool:
        return name in self._histories

    def __bool__(self) -> bool:
        return bool(self._histories)

    def weights(self) -> dict[str, float]:
        """Return the table that goes out with every train message."""
        return {name: history.weight for name, history in self._histories.items()}

    def advance(self, counted: Iterable[str]) -> None:
        """Account for one round, given the group of each counted client that named one."""
        members = Counter(counted)
        for name, history in self._histories.items():
            if members[name] > history.size:
                log.warning(
                    "Group %r has %d members by configuration, but %d were counted in one round.",
                    name,
                    history.size,
                    members[name],
                )
            history.advance(members[name])

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {name: asdict(history.state) for name, history in self._histories.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint; the groups must be the same ones."""
        if state.keys() != self._histories.keys():
            raise ValueError(
                f"The checkpoint has the groups {sorted(state)}, but this strategy has "
                f"{sorted(self._histories)}."
            )
        for name, fields in state.items():
            self._histories[name].state = GroupState(**fields)
