"""What a seed draws: how often clients and classes are there, before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from simulations.config import AUTHORS, RunConfig
from simulations.report.runs import class_presence
from simulations.report.table import Table, shortened
from simulations.report.weight_paths import reciprocal
from simulations.runs.experiment import open_experiment


def participation_table(config: RunConfig, seeds: Sequence[int]) -> Table:
    """Return a row per seed on the participation that it draws for `config`.

    The mean of 1/p says how hard the draw is for methods that serve all clients alike: an
    estimate of the mean update that weighs those who came by 1/p has a variance that grows with it.
    """
    whose = ", drawn as by the paper's authors" if config.draw == AUTHORS else ""
    table = Table(
        "draws",
        f"Participation by seed: {config.task.title}, {config.clients} clients{whose}",
        ["seed", "clients per round", "mean of 1/p", "clients with the smallest p in %",
         "most frequent class there in %", "rarest class there in %"],
    )  # fmt: skip
    for seed in seeds:
        experiment = open_experiment(replace(config, seed=seed))
        p, split = experiment.probabilities, experiment.split
        present = 100 * class_presence(p, split.class_shares, split.sizes)
        floored = 100 * np.mean(p == p.min())
        numbers = (p.sum(), reciprocal(p).mean(), floored, present.max(), present.min())
        table.rows.append([str(seed), *(shortened(float(number)) for number in numbers)])
    return table
