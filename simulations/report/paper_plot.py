"""A picture of all cells of the paper's tables that runs stand beside."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from simulations.report import plot_style as style
from simulations.report.runs import Run
from simulations.report.setting import Columns
from simulations.report.statistics import PaperCell, paper_cells
from simulations.tasks.arrays import PARTS

_ROW = 0.27
"""Height of a cell in inches."""


def paper_plot(runs: Sequence[Run]) -> Figure | None:
    """Return a row per setting with a dot for us and one for the paper, with both error bars.

    The bars are a standard deviation over seeds to either side; a single seed of ours has none.
    """
    cells = paper_cells(runs)
    if not cells:
        return None
    columns = Columns.of(cell.setting for cell in cells)
    rows: dict[str, dict[str, PaperCell]] = {}
    for cell in cells:
        rows.setdefault(", ".join(filter(None, columns.cells(cell.setting))), {})[cell.part] = cell
    figure, axes = style.new_figure(12, 1.6 + _ROW * len(rows), ncols=len(PARTS), sharey=True)
    places = np.arange(len(rows), dtype=float)
    for axis, part in zip(axes, PARTS, strict=True):
        here = [cells[part] for cells in rows.values()]
        sides = (
            ("this suite", [cell.ours for cell in here], "#0072B2", "o", -0.14),
            ("the paper", [cell.theirs for cell in here], "#D55E00", "D", 0.14),
        )
        for label, spreads, colour, marker, shift in sides:
            bars = [spread.std or 0.0 for spread in spreads]
            means = [spread.mean for spread in spreads]
            look: dict[str, Any] = {"color": colour, "marker": marker, "ms": 4.5, "capsize": 2.5}
            axis.errorbar(means, places + shift, xerr=bars, ls="", label=label, **look)
        axis.set(xlabel=f"{'training' if part == 'train' else part} accuracy in %")
    axes[0].set_yticks(places, list(rows))
    axes[0].set_ylim(len(rows) - 0.5, -0.5)
    style.legend_below(figure, axes[0])
    return figure
