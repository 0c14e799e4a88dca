"""How loss and accuracy spread over the clients."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from simulations.report.plot_style import height_for, legend_below, line_styles, new_figure
from simulations.report.runs import Panel

_MEASURES = (
    ("loss", "training loss of a client", 1.0),
    ("train_accuracy", "training accuracy of a client in %", 100.0),
    ("test_accuracy", "test accuracy of a client in %", 100.0),
)


def draw_cdf(axis: Axes, values: NDArray[np.float64], label: str, **style: Any) -> None:
    """Draw the empirical distribution function of `values`."""
    ordered = np.sort(values[np.isfinite(values)])
    if len(ordered):
        heights = np.arange(1, len(ordered) + 1) / len(ordered)
        x, y = np.concatenate([ordered[:1], ordered]), np.concatenate([[0.0], heights])
        axis.plot(x, y, drawstyle="steps-post", label=label, **style)


def client_distributions(panel: Panel) -> Figure | None:
    """Return distribution functions over the clients of all seeds, one line per method."""
    lines = {
        label: [run.clients for run in runs if run.clients is not None]
        for label, runs in panel.lines.items()
    }
    lines = {label: some for label, some in lines.items() if some}
    if not lines:
        return None
    figure, axes = new_figure(12, height_for(len(lines)), columns=3, sharey=True)
    figure.suptitle(panel.title)
    styles = line_styles(lines, panel.looks)
    for axis, (key, name, scale) in zip(axes, _MEASURES, strict=True):
        for label, clients in lines.items():
            values = scale * np.concatenate([some[key] for some in clients])
            draw_cdf(axis, values, label, **styles[label])
        axis.set(xlabel=name, ylim=(0, 1.02))
    axes[0].set_ylabel("share of clients below")
    legend_below(figure, axes[0])
    return figure
