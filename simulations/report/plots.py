"""All plots of a set of runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from simulations.config import ConfigError
from simulations.report.class_bars import class_bars
from simulations.report.client_distributions import client_distributions
from simulations.report.curves import curves
from simulations.report.cutoff_plot import cutoff_plot
from simulations.report.plot_style import FORMATS, save
from simulations.report.runs import Panel, Run, panels
from simulations.report.weight_paths import weight_paths

_OF_PANELS: dict[str, Callable[[Panel], Figure | None]] = {
    "curves": curves,
    "classes": class_bars,
    "clients": client_distributions,
}

KINDS = (*_OF_PANELS, "weights", "cutoff")


def draw_runs(
    runs: Sequence[Run],
    out: Path,
    *,
    kinds: Sequence[str] = KINDS,
    formats: Sequence[str] = FORMATS,
) -> list[Path]:
    """Draw runs into the directory `out`."""
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError(f"kinds has {kind!r}, but each must be one of {', '.join(KINDS)}.")
    return [
        path for name, figure in figures(runs, kinds) for path in save(figure, out / name, formats)
    ]


def figures(runs: Sequence[Run], kinds: Sequence[str] = KINDS) -> Iterator[tuple[str, Figure]]:
    """Yield the figures of runs, each with its name, as far as they have what is to be drawn."""
    for panel in panels(runs):
        for kind, make in _OF_PANELS.items():
            if kind in kinds and (figure := make(panel)) is not None:
                yield f"{kind}-{panel.name}", figure
        if "weights" in kinds:
            yield from _weights(panel)
    if "cutoff" in kinds and (figure := cutoff_plot(runs)) is not None:
        yield "cutoff", figure


def _weights(panel: Panel) -> Iterator[tuple[str, Figure]]:
    """Yield the weights of each line that has learned some, under its first seed."""
    for label, runs in panel.lines.items():
        run = runs[0]
        if run.participation is None:
            continue
        figure = weight_paths(run.participation, f"{label}, {panel.title}, seed {run.seed}")
        if figure is not None:
            name = re.sub(r"[^A-Za-z0-9.]+", "-", label.replace("∞", "infinity"))
            yield f"weights-{panel.name}-{name}", figure
