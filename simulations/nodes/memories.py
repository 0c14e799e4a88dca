"""One client's places for what its method lets it remember.

A version needs two memories, one from before its pending round and one for when that is counted. A
client has places for those of two versions. So the next version writes one memory: the other is one
of those that are there already.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from fedau_flwr.arrays import Arrays
from fedau_flwr.client.store import recall
from fedau_flwr.client.transform import Memory, NextMemory
from simulations.nodes.blocks import NamedBlocks, Stamp, alone

PLACES = 4
"""Of each client, counted from 1."""


class Memories:
    """The memories of the client `number` among all clients' `blocks`."""

    def __init__(self, blocks: NamedBlocks, number: int) -> None:
        self._blocks = blocks
        self._first = number * PLACES
        self._read: list[tuple[int, Memory]] = []

    def read(self, place: int, count: int, *, copied: bool = False) -> Memory:
        """Return the memory of `count` groups at a place, and know it again when it is written."""
        memory = self._blocks.read(self._first + place - 1, count) if count else {}
        if copied:
            memory = {n: {k: v.copy() for k, v in some.items()} for n, some in memory.items()}
        self._read.append((place, {name: dict(arrays) for name, arrays in memory.items()}))
        return memory

    def write(
        self, memories: Mapping[str, Any], taken: Iterable[int], stamp: Stamp
    ) -> dict[str, tuple[int, int]]:
        """Write memories to free places, but for one that was read here and is as it was.

        Returns the place of each, and its number of groups.
        """
        terms = {key: _terms(memory) for key, memory in memories.items()}
        places = {
            key: next((place for place, read in self._read if _same(read, memory)), 0)
            for key, memory in terms.items()
        }
        free = iter(sorted({*range(1, PLACES + 1)} - {*taken, *places.values()}))
        for key, memory in terms.items():
            if not places[key]:
                places[key] = next(free)
                self._blocks.write(self._first + places[key] - 1, stamp, memory)
        return {key: (places[key], len(memory)) for key, memory in terms.items()}


def _terms(memory: Any) -> dict[str, tuple[Arrays, ...]]:
    """Return the groups of a memory, one that is still to be made as what it is the sum of."""
    return memory.terms() if isinstance(memory, NextMemory) else alone(recall(memory))


def _same(read: Memory, memory: Mapping[str, tuple[Arrays, ...]]) -> bool:
    """Return whether a memory has the arrays that were read, which nobody may have changed."""
    return read.keys() == memory.keys() and all(
        len(memory[group]) == 1
        and arrays.keys() == memory[group][0].keys()
        and all(value is memory[group][0][name] for name, value in arrays.items())
        for group, arrays in read.items()
    )
