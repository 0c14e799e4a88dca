"""The clients of a run: who holds which samples, and how often each is there.

Simulations and deployments draw them here, and nowhere else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.availability import Process, participation_probabilities
from simulations.config import AUTHORS, ConfigError, RunConfig
from simulations.tasks.split import Split, dirichlet_split, even_split, given_split


class Population(NamedTuple):
    """Split, participation probabilities ``p_n``, and who is there in which round."""

    split: Split
    probabilities: NDArray[np.float64]
    process: Process | None
    """The authors' own path, with their draw and where they have this pattern."""


def draw_population(config: RunConfig, targets: NDArray[Any], clients: int) -> Population:
    """Draw the clients of a run, a function of its settings alone.

    Parameters
    ----------
    targets : NDArray[Any]
        Of the whole training set.
    clients : int
        How many clients share it.
    """
    task = config.task
    # The authors' program draws split, probabilities and participation from one stream.
    authors = np.random.RandomState(config.seed) if config.draw == AUTHORS else None
    source = config.seed if authors is None else authors
    own = task.split(targets, clients=clients, seed=config.seed)
    if own is not None and len(own) != clients:
        raise ConfigError(
            f"clients is {clients}, but must be {len(own)}, as in the split of {task.title}."
        )
    if own is not None:
        split = given_split(task, targets, own)
    elif task.classes:
        split = dirichlet_split(
            targets,
            num_clients=clients,
            num_classes=task.num_classes,
            alpha=config.alpha_data,
            seed=source,
        )
    else:
        split = even_split(task, targets, num_clients=clients, seed=config.seed)
    probabilities = participation_probabilities(
        split.class_shares,
        concentration=config.alpha_participation,
        mean=config.mean_participation,
        floor=config.min_participation,
        seed=source,
    )
    pattern = config.participation
    process = None if authors is None else pattern.authors_process(probabilities, authors)
    return Population(split, probabilities, process)
