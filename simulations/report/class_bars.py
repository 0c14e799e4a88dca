"""Accuracy by class: where participation bias shows."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from simulations.report.plot_style import bar_styles, legend_below, new_figure
from simulations.report.results import (
    class_accuracy,
    class_names,
    class_order,
    class_participation,
    shown_places,
)
from simulations.report.runs import Panel


def class_bars(panel: Panel) -> Figure | None:
    """Return test accuracies by class and method, the classes that are there most often first."""
    lines = {
        label: [run for run in runs if run.class_participation is not None]
        for label, runs in panel.lines.items()
    }
    lines = {label: runs for label, runs in lines.items() if runs}
    if not lines:
        return None
    everyone = [run for runs in lines.values() for run in runs]
    places = shown_places(len(class_order(everyone[0])))
    figure, (axis,) = new_figure(12, 4.6)
    width = 0.84 / len(lines)
    for number, (label, style) in enumerate(bar_styles(lines, panel.looks).items()):
        values = 100 * np.array([class_accuracy(run)[places] for run in lines[label]])
        std = values.std(axis=0, ddof=1) if len(values) > 1 else None
        x = np.arange(len(places)) + (number - (len(lines) - 1) / 2) * width
        axis.bar(x, values.mean(axis=0), 0.92 * width, label=label, **style)
        if std is not None:
            axis.errorbar(x, values.mean(axis=0), std, fmt="none", ecolor="0.25", linewidth=0.8)
    present = np.mean([class_participation(run)[places] for run in everyone], axis=0)
    axis.set_xticks(
        np.arange(len(places)),
        [
            f"{name}\n{100 * p:.1f} %"
            for name, p in zip(class_names(everyone, places), present, strict=True)
        ],
    )
    axis.set(
        xlabel="class, with the mean participation probability of its samples",
        ylabel="test accuracy in %",
        title=panel.title,
    )
    axis.set_ylim(0, 100)
    axis.set_xlim(-0.6, len(places) - 0.4)
    axis.grid(visible=False, axis="x")
    legend_below(figure, axis)
    return figure
