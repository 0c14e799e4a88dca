"""Copies of runs to publish: results without checkpoints, logs and the paths of a machine."""

import shutil
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from fedau_flwr.files import write_atomically
from simulations.config import AUTHORS, ConfigError
from simulations.report.runs import Run
from simulations.runs.directory import RunDirectory


def export(runs: Iterable[Run], directory: Path, out: Path) -> list[Path]:
    """Copy the runs below `directory` that have ended to the same places below `out`.

    Returns where the copies are. What was copied there before is replaced.
    """
    ended = [run for run in runs if run.reached is None]
    copies = [_copy(run, out / run.directory.path.relative_to(directory)) for run in ended]
    if not copies:
        raise ConfigError(f"DIR is {str(directory)!r}, but must hold at least one run that ended.")
    return copies


def _copy(run: Run, target: Path) -> Path:
    source, copy = run.directory, RunDirectory(target)
    if target == source.path:
        raise ConfigError(f"OUT is {str(target)!r}, but must be another place than the run's.")
    copy.config_file.unlink(missing_ok=True)
    RunDirectory.open(replace(run.summary.config, data_dir="", run_dir=str(target)))
    shutil.copyfile(source.metrics_file, copy.metrics_file)
    shutil.copyfile(source.outcome_file, copy.outcome_file)
    if run.summary.config.draw == AUTHORS and source.raster_file.exists():
        # Other paths follow from the seed, this one from the data as well, which a reader may lack.
        shutil.copyfile(source.raster_file, copy.raster_file)
    for file in (source.participation_file, source.clients_file):
        if file.exists():
            with np.load(file) as arrays:
                values = {name: arrays[name] for name in arrays.files}
            write_atomically(target / file.name, partial(np.savez_compressed, **values))
    return target
