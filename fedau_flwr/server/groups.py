"""Weights for groups of clients that each show up about once.

A client that takes part once in its life has no history to estimate from, but the clients of
its device model or region have one together. The server, which sees who was counted, keeps
one history per group; a node names its group and uses the group's weight.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .._log import log
from ..checks import check_count
from ..weighting import check_cutoff

_STATE = ("intervals", "length", "elapsed")


@dataclass(slots=True)
class GroupHistory:
    r"""Algorithm 2 for a group of `size` members that share one history.

    Every round adds `size` to the running length; `k ≥ 1` counted members close `k` intervals
    that together have this length; `cutoff` rounds without any close `size` intervals of
    `cutoff`. The weight is the total length over the intervals, at most `cutoff`. A group of
    one is Algorithm 2 itself.
    """

    size: int
    cutoff: int | None = 50
    intervals: int = 0  # closed ones
    length: int = 0  # of all of them
    elapsed: int = 0  # rounds since the last

    def __post_init__(self) -> None:
        self.size = check_count("A group's size", self.size)
        check_cutoff("group_cutoff", self.cutoff)

    @property
    def weight(self) -> float:
        """The weight of every member in the next round."""
        if not self.intervals:
            return 1.0
        mean = self.length / self.intervals
        # A group that is larger than configured would get weights below 1.
        return max(1.0, mean if self.cutoff is None else min(mean, self.cutoff))

    def advance(self, counted: int) -> None:
        """Account for one round in which `counted` members were counted."""
        self.elapsed += 1
        if counted or self.elapsed == self.cutoff:
            self.intervals += counted or self.size
            self.length += self.elapsed * self.size
            self.elapsed = 0


class Groups:
    """The histories of all groups of a training, advanced once per round.

    The sizes of the groups are configured because they cannot be observed.
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
            if (many := members[name]) > history.size:
                log.warning(
                    f"Group {name!r} has {history.size} members by configuration, but {many} were "
                    "counted in one round."
                )
            history.advance(members[name])

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        histories = self._histories.items()
        return {name: {field: getattr(one, field) for field in _STATE} for name, one in histories}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint; the groups must be the same ones."""
        if state.keys() != self._histories.keys():
            raise ValueError(
                f"The checkpoint has the groups {sorted(state)}, but this strategy has "
                f"{sorted(self._histories)}."
            )
        for name, fields in state.items():
            self._histories[name] = replace(self._histories[name], **fields)
