"""The part of a run that server and workers derive from its settings, each for itself.

Everything here is a function of the `RunConfig`, so nothing of it is ever sent: a worker knows its
clients' data, and for `known-statistics` their probabilities, from the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedau_flwr import FedAUWeighting, InverseProbabilityWeighting, UnitWeighting
from fedau_flwr.availability import Process, participation_probabilities
from fedau_flwr.weighting import Weighting
from simulations.config import ConfigError, RunConfig
from simulations.patterns.builders import build_process
from simulations.tasks.arrays import Arrays
from simulations.tasks.prepare import open_arrays
from simulations.tasks.spec import DatasetSpec
from simulations.tasks.split import Split, dirichlet_split


@dataclass(frozen=True, eq=False)
class Experiment:
    """Data, split and participation of a run.

    Parameters
    ----------
    config : RunConfig
        The settings.
    spec : DatasetSpec
        What the paper fixes for the data set.
    arrays : Arrays
        Training and test set, memory-mapped.
    split : Split
        Which client holds which training samples.
    probabilities : NDArray[np.float64]
        ``p_n``: the stationary probabilities, or the level that a non-stationary pattern
        modulates.
    process : Process
        Who is there in which round.
    """

    config: RunConfig
    spec: DatasetSpec
    arrays: Arrays
    split: Split
    probabilities: NDArray[np.float64]
    process: Process

    def weighting(self, client: int) -> Weighting:
        """Return how a client turns its history into its weight under the run's method."""
        if self.config.method == "fedau":
            return FedAUWeighting(cutoff=self.config.cutoff or None)
        if self.config.method == "known-statistics":
            return InverseProbabilityWeighting(float(self.probabilities[client]))
        return UnitWeighting()


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
    spec = config.spec
    arrays = open_arrays(spec, config.data_path, seed=config.seed)
    # The authors' program draws the split and then the probabilities from one stream.
    source = np.random.RandomState(config.seed) if config.draw == "authors" else config.seed
    split = dirichlet_split(
        arrays.train.labels,
        num_clients=config.clients,
        num_classes=spec.num_classes,
        alpha=config.alpha_data,
        seed=source,
    )
    p = participation_probabilities(
        split.class_shares,
        concentration=config.alpha_participation,
        mean=config.mean_participation,
        floor=config.min_participation,
        seed=source,
    )
    process = build_process(p, config)
    stationary = process.probability
    return Experiment(config, spec, arrays, split, p if stationary is None else stationary, process)
