"""Who holds whose shares, and how many shares a secret takes.

Bonawitz et al. (2017) let every client share with every other one; Bell et al. (2020) let it share
with k random ones only, which costs O(log n) instead of O(n) per client. As there, every client
draws its k *holders* itself, after it has seen the list of all clients: neither the server nor
whoever speaks last has a say in who holds an honest client's shares. Two clients have a mask in
common if either drew the other.

With n clients, of which at most c collude, h = k + 1 holders (itself included) and threshold t, by
union bounds over clients and sets of clients and exact hypergeometric probabilities:

- *captured*: some client's secrets are shared with t colluding clients. n · P(H(n-1, c, k) >= t).
- *divided*: fewer than half of the honest survivors, R, could be unmasked alone, whoever the server
  lets vanish once it has seen the graph, and whichever shares it withholds: only the clients that
  an honest client drew itself, and that are in the sum, have a mask in common with it for certain.
  Honest clients unmask only if t of their own holders are in the sum, and more than 2n/3 of all. So
  everyone in R has t - 1 holders among the colluding and R, and none among the other honest
  survivors, at least s = 2n/3 - c - r. The sum over r of C(n, r) times the smaller of
  P(H(n-1, c+r-1, k) >= t-1)^r and 2^(n-r) · P(H(n-1, s, k) = 0)^r.
- *lost*: some client has fewer than t holders left if a fraction vanishes at random.
  n · P(H(n, vanished, h) > h - t).

H(population, marked, drawn) is how many of the drawn are marked. k is the smallest even number for
which the first two are at most 2^-40 and the last is at most 2^-20, or all others.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import check

SECRECY_BITS = -40.0
LIVENESS_BITS = -20.0

Logs = NDArray[np.float64]


class Bounds(NamedTuple):
    """Bounds on the probabilities that a round goes wrong, as logarithms to the base 2."""

    captured: float
    divided: float
    lost: float

    @property
    def secret(self) -> bool:
        """Whether nobody's vector comes out, but with probability 2^-40."""
        return max(self.captured, self.divided) <= SECRECY_BITS


@dataclass(frozen=True, kw_only=True)
class Topology:
    """How many holders a client draws, as a function of the cohort's size.

    A secret takes more than the fraction `threshold` of its shares. At least one half: then the
    server cannot tell two disjoint groups of share holders different stories about the same client.
    """

    threshold: float = 0.5
    colluding: float = 0.2  # the fraction of clients that may collude with the server
    dropping: float = 0.2  # the fraction of clients that may vanish
    min_degree: int = 16  # the fewest holders; in smaller cohorts everyone holds everyone's shares

    def __post_init__(self) -> None:
        t, colluding, dropping = self.threshold, self.colluding, self.dropping
        check("threshold", t, 0.5 <= t < 1, "at least 0.5 and below 1")
        rule = f"at least 0, below threshold, {t}, and below 2/3: else all secrets are recovered"
        check("colluding", colluding, 0 <= colluding < min(t, 2 / 3), rule)
        rule = f"at least 0 and below 1 - threshold = {1 - t:.6g}: else every round is lost"
        check("dropping", dropping, 0 <= dropping < 1 - t, rule)
        even = self.min_degree >= 2 and self.min_degree % 2 == 0
        check("min_degree", self.min_degree, even, "an even number from 2 on")

    def shares_needed(self, holders: int) -> int:
        """Return how many of the shares that `holders` have give a secret back."""
        return floor(self.threshold * holders) + 1

    def degree(self, cohort: int, min_cohort: int = 2) -> int:
        """Return how many holders each client draws.

        Without a roster a client is sure of its own holders only: from 2·min_cohort - 2 on,
        reaching the threshold implies reaching `min_cohort` among them.
        """
        return min(max(_degree(self, cohort), 2 * min_cohort - 2), cohort - 1)

    def bounds(self, cohort: int, degree: int, needed: int) -> Bounds:
        """Return what can go wrong if `needed` of ``degree + 1`` shares give a secret back."""
        return _bounds(cohort, degree, needed, floor(self.colluding * cohort), self.dropping)


@lru_cache(maxsize=1024)
def _degree(topology: Topology, cohort: int) -> int:
    for degree in range(topology.min_degree, cohort - 1, 2):
        bounds = topology.bounds(cohort, degree, topology.shares_needed(degree + 1))
        if bounds.secret and bounds.lost <= LIVENESS_BITS:
            return degree
    return cohort - 1


@lru_cache(maxsize=1024)
def _bounds(cohort: int, degree: int, needed: int, colluding: int, dropping: float) -> Bounds:
    holders, vanished = degree + 1, ceil(dropping * cohort)
    one = np.array([colluding])
    captured = np.log2(cohort) + _tail(cohort - 1, one, degree, needed)[0]
    lost = np.log2(cohort) + _tail(cohort, np.array([vanished]), holders, holders - needed + 1)[0]
    bounds = Bounds(float(captured), -np.inf, float(lost))
    if degree == cohort - 1 or not bounds.secret:  # a sum over many sets, for which it is too soon
        return bounds
    return bounds._replace(divided=_divided(cohort, degree, needed, colluding))


def _divided(cohort: int, degree: int, needed: int, colluding: int) -> float:
    honest = 2 * cohort // 3 + 1 - colluding
    r = np.arange(1, max(honest // 2, 1) + 1)
    s = np.maximum(honest - r, 1)
    ways = _log_comb(cohort, r)
    starved = r * _tail(cohort - 1, colluding + r - 1, degree, needed - 1)
    apart = r * _missed(cohort, s, degree) + (cohort - r)
    return _log_sum(ways + np.minimum(starved, apart))


def _missed(cohort: int, marked: NDArray[Any], drawn: int) -> Logs:
    """Return the logarithm of the probability that none of the marked is drawn by one client."""
    missed: Logs = _log_comb(cohort - 1 - marked, drawn) - _log_comb(cohort - 1, drawn)
    return missed


def _tail(population: int, marked: NDArray[Any], drawn: int, least: int) -> Logs:
    """Return the logarithm of the probability that at least `least` of the drawn are marked."""
    hits = np.arange(max(least, 0), drawn + 1)
    if not hits.size:
        return np.full(len(marked), -np.inf)
    # A stranger chooses the sizes: no more than so many numbers are held at once.
    rows = max(1, 10**6 // hits.size)
    sums: list[float] = []
    for start in range(0, len(marked), rows):
        some = marked[start : start + rows, None]
        ways = _log_comb(some, hits) + _log_comb(population - some, drawn - hits)
        sums += [_log_sum(row) for row in ways]
    tails: Logs = np.array(sums) - _log_comb(population, drawn)
    return np.minimum(tails, 0.0)


def _log_sum(logs: Logs) -> float:
    top = logs.max()
    return float(top + np.log2(np.exp2(logs - top).sum())) if np.isfinite(top) else -np.inf


def _log_comb(n: Any, k: Any) -> Any:
    """Return log2 C(n, k), minus infinity where there is no way to choose."""
    n, k = np.broadcast_arrays(n, k)
    possible = (k >= 0) & (k <= n)
    n, k = np.where(possible, n, 0), np.where(possible, k, 0)
    table = _log_factorials(int(n.max(initial=0)))
    return np.where(possible, table[n] - table[k] - table[n - k], -np.inf)


@lru_cache(maxsize=8)
def _log_factorials(most: int) -> Logs:
    return np.concatenate([[0.0], np.cumsum(np.log2(np.arange(1, most + 1)))])


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


def table(cohorts: Collection[int] = (25, 50, 100, 300, 1000, 3000, 10_000)) -> str:
    """Return the degrees and bounds of the README, as a Markdown table."""
    head = ("clients", "colluding", "holders drawn", "captured", "divided", "lost")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for colluding in (0.2, 0.33):
        for cohort in cohorts:
            topology = Topology(colluding=colluding)
            degree = topology.degree(cohort)
            bounds = topology.bounds(cohort, degree, topology.shares_needed(degree + 1))
            bits = (f"2^{bits:.0f}" if bits > -np.inf else "0" for bits in bounds)
            cells = (f"{cohort:,}", f"{colluding:.0%}", f"{degree:,}", *bits)
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
