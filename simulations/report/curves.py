"""Loss and accuracy over the rounds, with a band."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from simulations.report.plot_style import height_for, legend_below, line_styles, new_figure
from simulations.report.runs import Panel, Run
from simulations.tasks import Task

WINDOW = 0.03
"""Width of the moving average, as a share of the rounds."""

_START = 0.2
"""The share of the rounds in which lines may be too steep for the picture."""

_WORTH = 2 / 3
"""The share of its height below which a picture is cut: less would win no room."""

Floats = NDArray[np.float64]


def moving_average(
    rounds: Sequence[Floats], values: Sequence[Floats], *, window: float
) -> tuple[Floats, Floats, Floats]:
    """Return the rounds, the means and the standard deviations of all values around each round.

    The values are those of all seeds within `window` rounds, half of them to either side; what is
    no number is left out. A single value has no deviation, which is NaN then.

    Parameters
    ----------
    rounds, values : Sequence[Floats]
        Of each seed, its rounds and what was measured then.
    window : float
        Width of the window in rounds.
    """
    when, what = np.concatenate(rounds), np.concatenate(values)
    when, what = when[np.isfinite(what)], what[np.isfinite(what)]
    order = np.argsort(when, kind="stable")
    when, what = when[order], what[order]
    centres = np.unique(when)
    first = np.searchsorted(when, centres - window / 2, side="left")
    after = np.searchsorted(when, centres + window / 2, side="right")
    pieces = [what[start:stop] for start, stop in zip(first, after, strict=True)]
    means = np.array([piece.mean() for piece in pieces])
    stds = np.array([piece.std() if len(piece) > 1 else np.nan for piece in pieces])
    return centres, means, stds


def curves(panel: Panel) -> Figure:
    """Return a figure with one line per method: the moving average, and a band of one std."""
    figure, axes = new_figure(12, height_for(len(panel.lines)), columns=3)
    figure.suptitle(panel.title)
    styles = line_styles(panel.lines, panel.looks)
    measures = [("train_loss", "training loss", 1.0), *_scores(panel.task)]
    for axis, (key, name, scale) in zip(axes, measures, strict=True):
        for label, runs in panel.lines.items():
            centres, means, stds = _line(runs, key, scale)
            (line,) = axis.plot(centres, means, label=_described(label, runs), **styles[label])
            if len(centres) == 1:
                line.set_marker("o")
            band = axis.fill_between(centres, means - stds, means + stds, linewidth=0)
            band.set(color=styles[label]["color"], alpha=0.3 if len(panel.lines) < 4 else 0.13)
        axis.set(xlabel="round", ylabel=name)
        _focus(axis, falls=key == "train_loss" or not panel.task.percent)
    if panel.task.classes:
        _limit_loss(axes[0], panel.task)
    legend_below(figure, axes[0])
    return figure


def _scores(task: Task) -> list[tuple[str, str, float]]:
    """Return key, name and scale of the task's metric on both parts."""
    scale, unit = (100.0, " in %") if task.percent else (1.0, "")
    name = task.metric.replace("_", " ")
    return [
        (f"train_{task.metric}", f"training {name}{unit}", scale),
        (f"test_{task.metric}", f"test {name}{unit}", scale),
    ]


def _line(runs: Sequence[Run], key: str, scale: float) -> tuple[Floats, Floats, Floats]:
    rounds = [np.array([e["round"] for e in run.metrics], float) for run in runs]
    values = [scale * np.array([e[key] for e in run.metrics], float) for run in runs]
    return moving_average(rounds, values, window=WINDOW * runs[0].setting.rounds)


def _described(label: str, runs: Sequence[Run]) -> str:
    diverged = sum(run.diverged for run in runs)
    if not diverged:
        return label
    return f"{label} (diverged)" if len(runs) == 1 else f"{label} ({diverged} of {len(runs)} div.)"


def _focus(axis: Any, *, falls: bool) -> None:
    """Let the steep start leave the picture, so that lines can be told apart where they are close.

    Every line stays in it after the first fifth of the rounds, and all of it where little room
    would be won.
    """
    lines = [np.asarray(line.get_xydata(), float) for line in axis.lines]
    last = max((line[-1, 0] for line in lines if len(line)), default=0.0)
    later = np.concatenate([line[line[:, 0] > _START * last, 1] for line in lines])
    if not len(later):
        return
    bottom, top = axis.get_ylim()
    if falls:
        low, high = _widened(axis.dataLim.y0, later.max(), bottom, top)
    else:
        low, high = _widened(later.min(), axis.dataLim.y1, bottom, top)
    if high - low < _WORTH * (top - bottom):
        axis.set_ylim(low, high)


def _widened(low: float, high: float, lowest: float, highest: float) -> tuple[float, float]:
    """Return the range from `low` to `high` with a margin, but nothing outside the outer range."""
    margin = 0.05 * (high - low) or 0.05 * (highest - lowest)
    return max(lowest, low - margin), min(highest, high + margin)


def _limit_loss(axis: Any, task: Task) -> None:
    """Keep losses that explode from flattening the others: twice that of guessing is enough."""
    highest = 2 * math.log(task.num_classes)
    if axis.get_ylim()[1] > highest:
        axis.set_ylim(top=highest)
    if axis.get_ylim()[0] < 0:
        axis.set_ylim(bottom=0)
