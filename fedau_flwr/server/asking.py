"""Who is asked: a share of the nodes that are there, and before the first round the wait for one.

A thin round is normal and waits for nobody. But nodes may connect only after the ServerApp has
started, so the first round of all waits until somebody is there.
"""

import random
import time

from flwr.serverapp import Grid

from .._log import log
from .roster import Roster

SOME_ROUNDS = 20
"""Rounds after which so few of `N` clients may be a wrong `N`."""
FEW = 4
"""So many times fewer clients than `N` are worth a word."""


class Asking:
    """Chooses the nodes of each round, and says once if their number and `N` do not fit."""

    def __init__(self, num_clients: int) -> None:
        self._num_clients = num_clients
        self._waited = False
        self._rounds = self._most = self._there = 0

    def begin(self, grid: Grid, server_round: int, minimum: int) -> None:
        """Begin a round; the first one waits for so many nodes, and at least one."""
        while not self._waited and (there := len(connected(grid))) < max(minimum, 1):
            sentence = "Waiting for nodes to connect: %d connected (minimum required: %d)."
            log.info(sentence, there, max(minimum, 1))
            time.sleep(1)
        self._waited = True
        # A grid on which clients come and go has to know the round that they are asked for.
        if (set_round := getattr(grid, "set_round", None)) is not None:
            set_round(server_round)

    def choose(
        self, grid: Grid, roster: Roster, fraction: float, least: int
    ) -> dict[int, list[int]]:
        """Return a fraction of the nodes, at least one of them, and the clients of each."""
        if fraction == 0.0:
            return {}
        nodes = sorted(sorted(grid.get_node_ids()), key=roster.number)
        self._there = len(nodes)
        wanted = min(max(int(len(nodes) * fraction), least, 1), len(nodes))
        chosen = nodes if wanted == len(nodes) else random.sample(nodes, wanted)
        return {node: here for node in chosen if (here := roster.clients(node))}

    def compare(self, seen: int) -> None:
        """Say if `N` is below the nodes of a round, or far above the clients `seen` so far."""
        self._rounds += 1
        there, known = self._there, self._num_clients
        if there > known >= self._most:
            log.warning(
                f"num_clients is {known}, but {there} nodes are connected: it must be the number "
                "of all clients, connected or not; every step is "
                f"{there / known:.3g} times too long with this one."
            )
        self._most = max(self._most, there)
        seen = max(seen, self._most)
        if self._rounds == SOME_ROUNDS and known >= FEW * seen:
            log.info(
                f"num_clients is {known}, but only {seen} clients were seen in {SOME_ROUNDS} "
                "rounds: if there are no more, a smaller num_clients makes longer steps."
            )


def connected(grid: Grid) -> list[int]:
    """Return the nodes that are connected, also where the grid plays that they are away."""
    everyone = getattr(grid, "everyone", None)
    return list((grid if everyone is None else everyone()).get_node_ids())
