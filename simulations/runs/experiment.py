"""The part of a run that server and workers derive from its settings, each for itself.

Everything here is a function of the `RunConfig`, so nothing of it is ever sent: a worker knows its
clients' data and their probabilities from the seed.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedau_flwr import availability
from fedau_flwr.availability import Process
from fedau_flwr.weighting import Weighting
from simulations.config import AUTHORS, FEDAWE, ConfigError, RunConfig
from simulations.registry import check
from simulations.tasks import Arrays, Task
from simulations.tasks.split import Split, dirichlet_split, even_split, given_split


@dataclass(frozen=True, eq=False)
class Experiment:
    """Data, split and participation of a run.

    ``probabilities`` are the ``p_n``: the stationary ones, or the level that a non-stationary
    pattern modulates. ``process`` says who is there in which round.
    """

    config: RunConfig
    task: Task
    arrays: Arrays
    split: Split
    probabilities: NDArray[np.float64]
    process: Process

    def weighting(self, client: int) -> Weighting:
        """Return how a client turns its history into its weight under the run's method."""
        return self.config.algorithm.weighting(float(self.probabilities[client]))


@lru_cache(maxsize=1)
def open_experiment(config: RunConfig) -> Experiment:
    """Return the experiment of `config`; the last one stays resident in this process.

    It is a `ConfigError` if its settings, its data or its trace cannot be used.
    """
    check("groups", config.groups, not config.groups, "empty in a simulation")
    try:
        arrays = config.task.open(config.data_path, seed=config.seed)
        split, p, authors = draw_population(config, arrays.train.targets, config.clients)
        pattern = config.participation
        process = authors or pattern.process(p, seed=config.seed, rounds=config.rounds)
    except (ValueError, OSError) as error:
        raise ConfigError(str(error)) from None
    p = p if process.probability is None else process.probability
    return Experiment(config, config.task, arrays, split, p, process)


def draw_population(
    config: RunConfig, targets: NDArray[Any], clients: int
) -> tuple[Split, NDArray[np.float64], Process | None]:
    """Draw who of `clients` holds which samples of a training set, and how often each is there.

    Simulations and deployments draw their clients here, and nowhere else. With the authors' draw
    the third is who is there in which round, where they have the run's pattern.
    """
    task = config.task
    # The authors' program draws split, probabilities and participation from one stream.
    authors = np.random.RandomState(config.seed) if config.draw == AUTHORS else None
    source = config.seed if authors is None else authors
    own = task.split(targets, clients=clients, seed=config.seed)
    if own is not None:
        rule = f"{len(own)}, as in the split of {task.title}"
        check("clients", clients, len(own) == clients, rule)
        split = given_split(task, targets, own)
    elif task.classes:
        sizes = {"num_clients": clients, "num_classes": task.num_classes}
        split = dirichlet_split(targets, **sizes, alpha=config.alpha_data, seed=source)
    else:
        split = even_split(task, targets, num_clients=clients, seed=config.seed)
    if config.draw == FEDAWE:
        p = availability.uniform_class_probabilities(split.class_shares, seed=config.seed)
    else:
        p = availability.participation_probabilities(
            split.class_shares, concentration=config.alpha_participation, seed=source,
            mean=config.mean_participation, floor=config.min_participation,
        )  # fmt: skip
    process = None if authors is None else config.participation.authors_process(p, authors)
    return split, p, process
