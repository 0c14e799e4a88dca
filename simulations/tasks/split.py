"""Which client holds which training samples: by Dirichlet draws, evenly, or as a task says."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from simulations.tasks.arrays import DataError
from simulations.tasks.base import Task

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Split:
    """Which client holds which training samples.

    Client ``n`` holds ``indices[offsets[n]:offsets[n + 1]]``. ``class_shares`` is ``[N, C]``: the
    shares that the classes really have in a client's data. A client without any sample has no
    such shares; it keeps its drawn κ_n (so its participation is like that of clients of its kind)
    and, having nothing to train on, contributes a zero update whenever it participates.
    """

    indices: Ints
    offsets: Ints
    class_shares: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def client(self, n: int) -> Ints:
        """Return the indices of the training samples of client ``n``."""
        return self.indices[self.offsets[n] : self.offsets[n + 1]]

    @property
    def sizes(self) -> Ints:
        """Number of samples per client."""
        return np.diff(self.offsets)

    @property
    def empty(self) -> Ints:
        """Clients that hold no sample."""
        return np.flatnonzero(self.sizes == 0)

    def notice(self) -> str | None:
        """Say in one sentence that some clients are empty, if so."""
        if not len(self.empty):
            return None
        return (
            f"{len(self.empty)} of {len(self)} clients hold no training sample and contribute a "
            "zero update when they participate; fewer clients or a larger alpha-data avoid this."
        )


def dirichlet_split(
    labels: Ints, *, num_clients: int, num_classes: int, alpha: float, seed: int | RandomState
) -> Split:
    """Deal the samples of a class c out in proportion to κ_{n,c} / Σ_m κ_{m,c}, κ_n ~ Dir(alpha).

    Shares are cumulated and rounded, so each sample goes to exactly one client. Which ones it gets
    of a class is drawn too, save with a generator in place of a seed: the program of the paper's
    authors draws nothing but κ here, and deals a class out in the order of the data set.
    """
    if not 1 <= num_clients <= len(labels):
        rule = f"at least 1 and at most {len(labels)}, the number of training samples"
        raise DataError(f"clients is {num_clients}, but must be {rule}.")
    rng = np.random.default_rng([seed, 0xDA7A]) if isinstance(seed, int) else seed
    kappa = rng.dirichlet(np.full(num_classes, alpha), size=num_clients)
    # A tiny alpha can underflow: a client without any class, or a class without any client.
    kappa[~(kappa.sum(axis=1) > 0)] = 1 / num_classes
    unowned = ~(kappa.sum(axis=0) > 0)

    owner = np.empty(len(labels), dtype=np.int64)
    clients = np.arange(num_clients)
    for label in range(num_classes):
        samples = np.flatnonzero(labels == label)
        if isinstance(rng, np.random.Generator):
            samples = rng.permutation(samples)
        dealt = np.full(num_clients, 1 / num_clients) if unowned[label] else kappa[:, label]
        cumulative = np.cumsum(dealt)
        ends = np.rint(cumulative / cumulative[-1] * len(samples)).astype(np.int64)
        owner[samples] = np.repeat(clients, np.diff(ends, prepend=0))

    return _owned(np.argsort(owner, kind="stable"), owner, labels, kappa)


def _owned(indices: Ints, owner: Ints, labels: Ints, drawn: NDArray[np.float64]) -> Split:
    """Return the split with these indices; owner and label of all samples are in any one order.

    Clients without samples have the class shares that they were ``drawn`` with, an array which
    becomes the split's: with a million clients another one is what most memory would go to.
    """
    counts = np.bincount(owner * drawn.shape[1] + labels, minlength=drawn.size).reshape(drawn.shape)
    sizes = counts.sum(axis=1)
    np.divide(counts, sizes[:, None], out=drawn, where=sizes[:, None] > 0)
    return Split(indices, np.concatenate([[0], np.cumsum(sizes)]), drawn)


def given_split(task: Task, targets: NDArray[Any], indices: Sequence[Ints]) -> Split:
    """Return the split that gives each client the samples of its `indices`.

    The class shares of a regression are those of one class of all samples.
    """
    joined = np.concatenate([np.empty(0, np.int64), *indices]).astype(np.int64)
    if len(joined) and not 0 <= joined.min() <= joined.max() < len(targets):
        given, last = f"samples {joined.min()} to {joined.max()}", len(targets) - 1
        raise DataError(f"the split of {task.title} has {given}, but must be within 0 to {last}.")
    owner = np.repeat(np.arange(len(indices)), [len(some) for some in indices])
    even = np.full((len(indices), task.num_groups), 1 / task.num_groups)
    return _owned(joined, owner, task.groups(targets[joined]), even)


def even_split(task: Task, targets: NDArray[Any], *, num_clients: int, seed: int) -> Split:
    """Return a split at random into parts of equal size, but for one sample."""
    order = np.random.default_rng([seed, 0xDA7A]).permutation(len(targets))
    return given_split(task, targets, np.array_split(order, num_clients))
