"""Which of its samples a client uses in each local step.

By default a client starts a fresh shuffled pass over its data in every round, seeded by (seed,
client, round): no state is kept between rounds, and any round can be repeated. The paper's authors
let a pass continue in the client's next turn; for that it is enough to know how many it has had.
"""

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.availability import Process

PER_ROUND, CONTINUED = "per-round", "continued"

_PASSES = 0xBA55  # tells the stream of a pass from those of a round

Positions = NDArray[np.int64]


def batch_positions(size: int, *, steps: int, batch: int, rng: np.random.Generator) -> Positions:
    """Return which of a client's ``size`` samples each step uses, ``[steps, min(batch, size)]``.

    Batches follow a shuffled pass; a short last one is dropped and the data reshuffled. A client
    with fewer samples than a batch uses all of them in each step.
    """
    if size <= batch:
        return np.tile(np.arange(size), (steps, 1))
    per_pass = size // batch
    passes = [_batches(size, batch, rng) for _ in range(-(-steps // per_pass))]
    return np.concatenate(passes)[:steps]


def continued_positions(
    size: int, *, first: int, steps: int, batch: int, seed: tuple[int, int]
) -> Positions:
    """Return the same for passes that go on after ``first`` steps; ``seed`` is (run's, client)."""
    if size <= batch:
        return np.tile(np.arange(size), (steps, 1))
    per_pass = size // batch
    start, end = first // per_pass, (first + steps - 1) // per_pass
    streams = (np.random.default_rng([_PASSES, *seed, n]) for n in range(start, end + 1))
    passes = [_batches(size, batch, rng) for rng in streams]
    skipped = first - start * per_pass
    return np.concatenate(passes)[skipped : skipped + steps]


def _batches(size: int, batch: int, rng: np.random.Generator) -> Positions:
    """Return one shuffled pass, without a short last batch."""
    whole = size // batch * batch
    return rng.permutation(size)[:whole].reshape(-1, batch)


class Turns:
    """How many turns each client has had before a round, as its participation says."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._before = 0
        self._counts = np.zeros(process.clients, np.int64)

    def before(self, t: int) -> Positions:
        """Return in how many of the rounds ``0, …, t − 1`` each client was there."""
        if t < self._before:
            self._before = 0
            self._counts[:] = 0
        for number in range(self._before, t):
            self._counts += self._process.active(number)
        self._before = t
        return self._counts
