"""All plots of a set of runs."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from simulations.config import ConfigError
from simulations.methods.fedau import FedAUMethod
from simulations.report import plot_style as style
from simulations.report.paper_plot import paper_plot
from simulations.report.participation import weight_paths
from simulations.report.results import KINDS, shown_classes
from simulations.report.runs import Panel, Run, grouped, panels
from simulations.report.setting import described, varying
from simulations.report.table import Spread

_MEASURES = (
    ("loss", "training loss of a client", 1.0),
    ("train_accuracy", "training accuracy of a client in %", 100.0),
    ("test_accuracy", "test accuracy of a client in %", 100.0),
)

_PARTS = (("train", "training accuracy in %"), ("test", "test accuracy in %"))

FEWEST_CUTOFFS = 3
WINDOW = 0.03
"""Width of the moving average, as a share of the rounds."""

_START = 0.2
"""The share of the rounds in which lines may be too steep for the picture."""

_WORTH = 2 / 3
"""The share of its height below which a picture is cut: less would win no room."""

Floats = NDArray[np.float64]
Runs = Sequence[Run]


def draw_runs(runs: Runs, out: Path, *, kinds: Sequence[str] = KINDS, **options: Any) -> list[Path]:
    """Draw runs into the directory `out`, with the options of `plot_style.save`."""
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError(f"kinds has {kind!r}, but each must be one of {', '.join(KINDS)}.")
    drawn = figures(runs, kinds)
    return [p for name, figure in drawn for p in style.save(figure, out / name, **options)]


def figures(runs: Runs, kinds: Sequence[str] = KINDS) -> Iterator[tuple[str, Figure]]:
    """Yield the figures of runs, each with its name, as far as they have what is to be drawn."""
    for panel in panels(runs):
        for kind, make in _OF_PANELS.items():
            if kind in kinds and (figure := make(panel)) is not None:
                yield f"{kind}-{panel.name}", figure
        if "weights" in kinds:
            yield from _weights(panel)
    for kind, draw in _OF_ALL.items():
        if kind in kinds and (figure := draw(runs)) is not None:
            yield kind, figure


def _weights(panel: Panel) -> Iterator[tuple[str, Figure]]:
    """Yield the weights of each line that has learned some, under its first seed."""
    for label, (run, *_) in panel.lines.items():
        title = f"{label}, {panel.title}, seed {run.seed}"
        if (figure := weight_paths(run.participation or {}, title)) is not None:
            name = re.sub(r"[^A-Za-z0-9.]+", "-", label.replace("∞", "infinity"))
            yield f"weights-{panel.name}-{name}", figure


def moving_average(
    rounds: Sequence[Floats], values: Sequence[Floats], *, window: float
) -> tuple[Floats, Floats, Floats]:
    """Return the rounds, the means and the standard deviations of all values around each round.

    The values are those of all seeds within `window` rounds, half of them to either side; what is
    no number is left out. A single value has no deviation, which is NaN then.
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
    task = panel.task
    height = style.height_for(len(panel.lines))
    figure, axes = style.new_figure(12, height, panel.title, ncols=3)
    styles = style.line_styles(panel.lines, panel.looks)
    scale, unit = (100.0, " in %") if task.percent else (1.0, "")
    score = f"{task.metric.replace('_', ' ')}{unit}"
    measures = (
        ("train_loss", "training loss", 1.0),
        (f"train_{task.metric}", f"training {score}", scale),
        (f"test_{task.metric}", f"test {score}", scale),
    )
    for axis, (key, name, scale) in zip(axes, measures, strict=True):
        for label, runs in panel.lines.items():
            centres, means, stds = _line(runs, key, scale)
            (line,) = axis.plot(centres, means, label=_described(label, runs), **styles[label])
            if len(centres) == 1:
                line.set_marker("o")
            band = axis.fill_between(centres, means - stds, means + stds, linewidth=0)
            band.set(color=styles[label]["color"], alpha=0.3 if len(panel.lines) < 4 else 0.13)
        axis.set(xlabel="round", ylabel=name)
        _focus(axis, falls=key == "train_loss" or not task.percent)
    if task.classes:
        # Losses that explode would flatten the others: twice that of guessing is enough.
        bottom, top = axes[0].get_ylim()
        axes[0].set_ylim(max(bottom, 0), min(top, 2 * math.log(task.num_classes)))
    style.legend_below(figure, axes[0])
    return figure


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
    low = axis.dataLim.y0 if falls else later.min()
    high = later.max() if falls else axis.dataLim.y1
    margin = 0.05 * (high - low) or 0.05 * (top - bottom)
    low, high = max(bottom, low - margin), min(top, high + margin)
    if high - low < _WORTH * (top - bottom):
        axis.set_ylim(low, high)


def class_bars(panel: Panel) -> Figure | None:
    """Return test accuracies by class and method, the classes that are there most often first."""
    lines = panel.having(lambda run: run.classes)
    if not lines:
        return None
    places, names, present = shown_classes(lines)
    figure, (axis,) = style.new_figure(12, 4.6)
    width, ticks = 0.84 / len(lines), np.arange(len(places))
    styles = style.bar_styles(lines, panel.looks)
    for number, (label, some) in enumerate(lines.items()):
        values = 100 * np.array([run.accuracy[places] for run in some])
        x, mean = ticks + (number - (len(lines) - 1) / 2) * width, values.mean(axis=0)
        axis.bar(x, mean, 0.92 * width, label=label, **styles[label])
        if len(some) > 1:
            std = values.std(axis=0, ddof=1)
            axis.errorbar(x, mean, std, fmt="none", ecolor="0.25", linewidth=0.8)
    pairs = zip(names, present, strict=True)
    axis.set_xticks(ticks, [f"{name}\n{100 * p:.1f} %" for name, p in pairs])
    axis.set_xlabel("class, with the mean participation probability of its samples")
    axis.set(ylabel="test accuracy in %", title=panel.title)
    axis.set(ylim=(0, 100), xlim=(-0.6, len(places) - 0.4))
    axis.grid(visible=False, axis="x")
    style.legend_below(figure, axis)
    return figure


def client_distributions(panel: Panel) -> Figure | None:
    """Return distribution functions over the clients of all seeds, one line per method."""
    lines = panel.having(lambda run: run.clients)
    if not lines:
        return None
    height = style.height_for(len(lines))
    figure, axes = style.new_figure(12, height, panel.title, ncols=3, sharey=True)
    styles = style.line_styles(lines, panel.looks)
    for axis, (key, name, scale) in zip(axes, _MEASURES, strict=True):
        for label, clients in lines.items():
            values = scale * np.concatenate([some[key] for some in clients])
            style.draw_cdf(axis, values, label, **styles[label])
        axis.set(xlabel=name, ylim=(0, 1.02))
    axes[0].set_ylabel("share of clients below")
    style.legend_below(figure, axes[0])
    return figure


def cutoff_plot(runs: Sequence[Run]) -> Figure | None:
    """Return accuracy against K with a line per setting, or None for fewer than three K.

    What diverged is a cross at the bottom instead of a point on the line, since its accuracy would
    press all others together; an infinite K is right of all others.
    """
    ended = [run for run in runs if cutoff_of(run) is not None and not run.reached]
    lines = {
        setting: grouped(members, lambda run: cutoff_of(run) or 0.0)
        for setting, members in grouped(ended, lambda r: replace(r.setting, method=None)).items()
    }
    lines = {setting: some for setting, some in lines.items() if len(some) >= FEWEST_CUTOFFS}
    if not lines:
        return None
    cutoffs = sorted({cutoff for some in lines.values() for cutoff in some})
    infinity = 5 * max(cutoff for cutoff in cutoffs if np.isfinite(cutoff))
    keys, first = varying(lines), next(iter(lines))
    names = [", ".join(described(setting, keys)) or "FedAU" for setting in lines]
    styles = style.line_styles(names)
    title = f"FedAU, {first.task.title}, {first.pattern.name}"
    figure, axes = style.new_figure(10, 4.4, title, ncols=2)
    for axis, (part, name) in zip(axes, _PARTS, strict=True):
        for number, (label, some) in enumerate(zip(names, lines.values(), strict=True)):
            # Lines side by side, or they would cover each other where nothing depends on K.
            shift = 1.05 ** (number - (len(lines) - 1) / 2)
            groups = [some[cutoff] for cutoff in sorted(some)]
            spreads = [Spread.of([run.summary.score(part) for run in group]) for group in groups]
            x = shift * np.array([min(cutoff, infinity) for cutoff in sorted(some)])
            bad = np.array([any(run.diverged for run in group) for group in groups])
            y = np.where(bad, np.nan, [spread.mean for spread in spreads])
            std = [spread.std or 0.0 for spread in spreads]
            bars: dict[str, Any] = {"marker": "o", "ms": 4, "capsize": 3, "elinewidth": 1}
            axis.errorbar(x, y, std, label=label, **bars, **styles[label])
            height = np.full(int(bad.sum()), 0.03 + 0.05 * number)
            crosses: dict[str, Any] = {"transform": axis.get_xaxis_transform(), "ms": 7, "mew": 2}
            axis.plot(x[bad], height, "x", color=styles[label]["color"], **crosses)
        axis.set_xscale("log")
        ticks = [min(cutoff, infinity) for cutoff in cutoffs]
        axis.set_xticks(ticks, [_tick(cutoff) for cutoff in cutoffs], rotation=45)
        axis.minorticks_off()
        axis.set(xlabel="cutoff K (× at the bottom: diverged)", ylabel=name)
    style.legend_below(figure, axes[0], columns=5)
    return figure


def cutoff_of(run: Run) -> float | None:
    """Return FedAU's cutoff, which may be infinite; None for other methods."""
    method = run.setting.method
    return method.bound if isinstance(method, FedAUMethod) else None


def _tick(cutoff: float) -> str:
    if not np.isfinite(cutoff):
        return "∞"
    return f"$10^{{{round(np.log10(cutoff))}}}$" if cutoff >= 10_000 else f"{cutoff:g}"


_OF_PANELS: dict[str, Callable[[Panel], Figure | None]] = {
    "curves": curves, "classes": class_bars, "clients": client_distributions
}  # fmt: skip
_OF_ALL: dict[str, Callable[[Sequence[Run]], Figure | None]] = {
    "cutoff": cutoff_plot, "paper": paper_plot
}  # fmt: skip
