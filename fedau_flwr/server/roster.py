"""Which clients a node stands for."""

from collections.abc import Mapping


class Roster:
    """A client per node, named by the node's id, or by its number where that is known.

    Clients are counted and summed by number, so that a run repeats bit for bit although node ids
    do not.
    """

    hosting = False
    """Whether a node may stand for several clients, which its messages then name."""

    def __init__(self, numbers: Mapping[int, int] | None = None) -> None:
        self._numbers: Mapping[int, int] = {} if numbers is None else numbers

    def number(self, node: int) -> int:
        """Return the number by which a node is ordered."""
        return self._numbers.get(node, node)

    def clients(self, node: int) -> list[int]:
        """Return the clients that a node is asked for in the running round."""
        return [self.number(node)]
