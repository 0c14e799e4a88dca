"""Who shares secrets with whom, and how many shares a secret takes.

Bonawitz et al. (2017) let every client share with every other one; Bell et al. (2020) let it
share with k random neighbours only, which costs O(log n) instead of O(n) per client. The clients
are put on a circle in random order, and each is joined to the k/2 nearest on either side.

k is the smallest even number for which, over the random order,

- no honest client has `threshold` colluding neighbours, but with probability 2^-40, if at most
  the fraction `colluding` of all clients work together with the server; and
- no client has fewer than `threshold` survivors in its neighbourhood, but with probability 2^-20,
  if at most the fraction `dropping` of all clients vanish in the round; and
- the masks join all honest survivors, directly or through others, but with probability 2^-40, if
  both of these happen at once. Were they to fall into parts that share no mask, the server would
  learn the sum over each part. On the circle that takes two runs of k/2 clients in a row that are
  all gone or colluding.

All three are bounds by the union over places on the circle, with exact hypergeometric
probabilities. Up to 17 clients (k = 16) everyone is everyone's neighbour; the defaults give k = 16
for 25 clients, 24 for 60, 78 for 250 and 118 for 1,000. When more clients vanish than `dropping`
says, the server still voids a round whose sum would fall into parts; only it can, since a client
sees no more than its own neighbourhood.
"""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, comb, floor


@dataclass(frozen=True, kw_only=True)
class Topology:
    """The neighbour graph as a function of the cohort's size.

    Parameters
    ----------
    threshold : float
        A secret takes more than this fraction of the shares in a neighbourhood. At least one
        half: then the server cannot tell two disjoint groups of share holders different stories
        about the same client.
    colluding, dropping : float
        The fractions of clients that may collude with the server and that may vanish.
    min_degree : int
        The smallest number of neighbours; smaller cohorts are complete graphs.
    """

    threshold: float = 0.5
    colluding: float = 0.2
    dropping: float = 0.2
    min_degree: int = 16

    def __post_init__(self) -> None:
        if not 0.5 <= self.threshold < 1:
            raise ValueError(f"threshold={self.threshold} must be at least 0.5 and below 1.")
        for name in ("colluding", "dropping"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 0 and below 1.")
        if self.min_degree < 2 or self.min_degree % 2:
            raise ValueError(f"min_degree={self.min_degree} must be an even number from 2 on.")

    def shares_needed(self, holders: int) -> int:
        """Return how many of the shares in a neighbourhood of `holders` give a secret back."""
        return floor(self.threshold * holders) + 1

    def degree(self, cohort: int) -> int:
        """Return the number of neighbours of each client."""
        return _degree(self, cohort)

    def neighbourhoods(
        self, cohort: Collection[int], rng: random.Random, *, least: int = 2
    ) -> dict[int, list[int]]:
        """Return for every client the sorted ids of its neighbours and itself, `least` or more."""
        circle = sorted(cohort)
        rng.shuffle(circle)
        degree = max(self.degree(len(circle)), least // 2 * 2)
        if degree >= len(circle) - 1:
            return {client: sorted(circle) for client in circle}
        reach = range(-(degree // 2), degree // 2 + 1)
        return {
            client: sorted(circle[(place + step) % len(circle)] for step in reach)
            for place, client in enumerate(circle)
        }


@lru_cache(maxsize=1024)
def _degree(topology: Topology, cohort: int) -> int:
    for degree in range(topology.min_degree, cohort - 1, 2):
        holders = degree + 1
        needed = topology.shares_needed(holders)
        colluding, dropping = floor(topology.colluding * cohort), ceil(topology.dropping * cohort)
        captured = cohort * _tail(cohort - 1, colluding, degree, needed)
        starved = cohort * _tail(cohort, dropping, holders, holders - needed + 1)
        divided = _divided(topology, cohort, degree)
        if captured <= 2**-40 and starved <= 2**-20 and divided <= 2**-40:
            return degree
    return cohort - 1


def _divided(topology: Topology, cohort: int, degree: int) -> float:
    """Bound the probability that the honest survivors fall into parts without a common mask."""
    gone = floor(topology.colluding * cohort) + ceil(topology.dropping * cohort)
    pairs_of_runs = comb(cohort, 2)
    return pairs_of_runs * _tail(cohort, min(gone, cohort), degree, degree)


def parts(neighbours: Mapping[int, Collection[int]]) -> list[set[int]]:
    """Return the connected parts of a graph, given as the neighbours of each client."""
    left = set(neighbours)
    found = []
    while left:
        part: set[int] = set()
        reached = {min(left)}
        while reached:
            part |= reached
            reached = {peer for client in reached for peer in neighbours[client]} & left - part
        found.append(part)
        left -= part
    return found


def _tail(population: int, marked: int, drawn: int, least: int) -> float:
    """Return the probability that at least `least` of `drawn` are among the `marked`."""
    ways = sum(
        comb(marked, hits) * comb(population - marked, drawn - hits)
        for hits in range(least, min(marked, drawn) + 1)
    )
    return ways / comb(population, drawn)
