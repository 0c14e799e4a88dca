"""Accuracy against the cutoff K."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from simulations.methods.fedau import FedAUMethod
from simulations.report.plot_style import legend_below, line_styles, new_figure
from simulations.report.runs import Run, grouped
from simulations.report.setting import described, varying
from simulations.report.table import Spread

FEWEST_CUTOFFS = 3
_MEASURES = (("train", "training accuracy in %"), ("test", "test accuracy in %"))


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
    styles = line_styles(names)
    title = f"FedAU, {first.task.title}, {first.pattern.name}"
    figure, axes = new_figure(10, 4.4, title, columns=2)
    for axis, (part, name) in zip(axes, _MEASURES, strict=True):
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
    legend_below(figure, axes[0], columns=5)
    return figure


def cutoff_of(run: Run) -> float | None:
    """Return FedAU's cutoff, which may be infinite; None for other methods."""
    method = run.setting.method
    return method.bound if isinstance(method, FedAUMethod) else None


def _tick(cutoff: float) -> str:
    if not np.isfinite(cutoff):
        return "∞"
    return f"$10^{{{round(np.log10(cutoff))}}}$" if cutoff >= 10_000 else f"{cutoff:g}"
