"""All rows, one measurement after the other."""

from __future__ import annotations

import os
from pathlib import Path

from simulations.bench.bytes_row import bytes_row
from simulations.bench.engine_rows import engine_rows
from simulations.bench.flower_runs import FlowerRuns
from simulations.bench.row import Row
from simulations.bench.scale_rows import scale_row, weights_row
from simulations.bench.secure_row import secure_rows
from simulations.bench.settings import BenchSettings
from simulations.bench.side_by_side import Say
from simulations.bench.step_row import step_row
from simulations.launch.simulator import CLONE, Simulator


def measure(settings: BenchSettings, scratch: Path, say: Say) -> list[Row]:
    """Return all rows."""
    # The apps of the benchmark are guests here and find our modules by this path.
    paths = [str(CLONE), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    rows = [step_row(settings, say)]
    with Simulator(workers=settings.workers, environment=environment) as simulator:
        runs = FlowerRuns(simulator, settings, scratch / "runs")
        rows = [*engine_rows(settings, runs, say), *rows, scale_row(settings, runs, say)]
    return [
        *rows,
        bytes_row(settings, scratch, say),
        weights_row(settings, say),
        *secure_rows(settings, say),
    ]
