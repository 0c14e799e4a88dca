"""Participation in which a round depends on the one before it."""

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .process import Process

_MAX_SNAPSHOTS = 128


class Chain(Process):
    """Has a state per client, ``first`` in round 0 and then made from that of the round before.

    States are kept at evenly spaced rounds, at most 128 of them: going forward costs one step per
    round, and going back at most one spacing (rounds reached / 64).
    """

    def __init__(self, first: NDArray[Any]) -> None:
        super().__init__(len(first))
        self._latest = (0, first)
        self._spacing = 1
        self._snapshots = [self._packed(first)]

    @abstractmethod
    def _next(self, t: int, state: NDArray[Any]) -> NDArray[Any]:
        """Return the states in round ``t``, given those of the round before; a new array."""

    @abstractmethod
    def _there(self, state: NDArray[Any]) -> NDArray[np.bool_]:
        """Return who is there, given the states; a new array."""

    def _packed(self, state: NDArray[Any]) -> NDArray[Any]:
        """Return states as they are kept."""
        return state

    def _unpacked(self, kept: NDArray[Any]) -> NDArray[Any]:
        """Undo `_packed`."""
        return kept

    def _active(self, t: int) -> NDArray[np.bool_]:
        known, state = self._nearest(t)
        for later in range(known + 1, t + 1):
            state = self._next(later, state)
            self._remember(later, state)
        self._latest = (t, state)
        return self._there(state)

    def _nearest(self, t: int) -> tuple[int, NDArray[Any]]:
        """Return the last known states that are not after round ``t``, and their round."""
        index = min(t // self._spacing, len(self._snapshots) - 1)
        if index * self._spacing <= self._latest[0] <= t:
            return self._latest
        return index * self._spacing, self._unpacked(self._snapshots[index])

    def _remember(self, t: int, state: NDArray[Any]) -> None:
        if t != len(self._snapshots) * self._spacing:
            return
        self._snapshots.append(self._packed(state))
        if len(self._snapshots) > _MAX_SNAPSHOTS:
            self._snapshots = self._snapshots[::2]
            self._spacing *= 2
