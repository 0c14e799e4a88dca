"""The part of a run that server and workers derive from its settings, each for itself.

Everything here is a function of the `RunConfig`, so nothing of it is ever sent: a worker knows its
clients' data and their probabilities from the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.availability import Process
from fedau_flwr.weighting import Weighting
from simulations.config import ConfigError, RunConfig
from simulations.runs.population import draw_population
from simulations.tasks import Arrays, Task
from simulations.tasks.split import Split


@dataclass(frozen=True, eq=False)
class Experiment:
    """Data, split and participation of a run.

    Parameters
    ----------
    config : RunConfig
        The settings.
    task : Task
        Data, model, loss and metrics.
    arrays : Arrays
        Training and test set.
    split : Split
        Which client holds which training samples.
    probabilities : NDArray[np.float64]
        ``p_n``: the stationary probabilities, or the level that a non-stationary pattern
        modulates.
    process : Process
        Who is there in which round.
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

    Raises
    ------
    ConfigError
        If its settings, its data or its trace cannot be used.
    """
    try:
        return _open(config)
    except ConfigError:
        raise
    except (ValueError, OSError) as error:
        raise ConfigError(str(error)) from None


def _open(config: RunConfig) -> Experiment:
    if config.groups:
        raise ConfigError(f"groups is {config.groups!r}, but must be empty in a simulation.")
    arrays = config.task.open(config.data_path, seed=config.seed)
    split, p, authors = draw_population(config, arrays.train.targets, config.clients)
    pattern = config.participation
    process = authors or pattern.process(p, seed=config.seed, rounds=config.rounds)
    stationary = process.probability
    p = p if stationary is None else stationary
    return Experiment(config, config.task, arrays, split, p, process)
