"""How the plots look: colours and line styles that stay apart in greyscale, and saving."""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedau_flwr.files import write_atomically
from simulations.report.looks import Looks, chosen_looks

FORMATS = ("png", "svg")

_RC: dict[Any, Any] = {
    "figure.dpi": 100, "savefig.dpi": 150, "font.size": 10, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True, "grid.alpha": 0.25,
    "hatch.linewidth": 0.6, "svg.hashsalt": "fedau",
}  # fmt: skip

Styles = dict[str, dict[str, Any]]


def line_styles(labels: Iterable[str], looks: Looks | None = None) -> Styles:
    """Return colour and line style by label: those of `looks`, for others any that are free."""
    return {
        label: {"color": look.colour, "linestyle": look.dashes, "linewidth": 1.8}
        for label, look in chosen_looks(list(labels), looks or {}).items()
    }


def bar_styles(labels: Iterable[str], looks: Looks) -> Styles:
    """Return colour and hatching by label."""
    return {
        label: {"facecolor": look.colour, "hatch": look.hatch, "edgecolor": "white", "linewidth": 0}
        for label, look in chosen_looks(list(labels), looks).items()
    }


def nested_styles(labels: Iterable[str]) -> Styles:
    """Return styles for lines that lie on each other: from wide and light to thin and dark."""
    labels = list(labels)
    styles = {}
    for below, label in zip(reversed(range(len(labels))), labels, strict=True):
        shade, width = f"{0.8 * below / len(labels):.3f}", 1.2 + 1.6 * below
        styles[label] = {"color": shade, "linewidth": width, "solid_capstyle": "butt"}
    return styles


def new_figure(
    width: float, height: float, title: str = "", *, mosaic: str = "", **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its axes, row by row.

    In a mosaic axes are letters, and a letter that is repeated makes its axes wider.
    """
    with mpl.rc_context(_RC):
        figure = Figure(figsize=(width, height), layout="constrained")
        if title:
            figure.suptitle(title)
        if mosaic:
            return figure, [axis for _, axis in sorted(figure.subplot_mosaic(mosaic).items())]
        return figure, list(figure.subplots(squeeze=False, **options).flat)


def height_for(lines: int) -> float:
    """Return the height of a row of panels: more than four lines get more room."""
    return 4.4 + 0.5 * max(0, lines - 4)


def legend_below(figure: Figure, axes: Axes, *, columns: int = 4) -> None:
    """Put the legend of `axes` below all of a figure's panels, where it covers no line."""
    handles, labels = axes.get_legend_handles_labels()
    look: dict[str, Any] = {"ncols": min(columns, len(labels)), "frameon": False}
    figure.legend(handles, labels, loc="outside lower center", handlelength=3.4, **look)


def draw_cdf(axis: Axes, values: NDArray[np.float64], label: str, **style: Any) -> None:
    """Draw the empirical distribution function of `values`."""
    ordered = np.sort(values[np.isfinite(values)])
    if len(ordered):
        heights = np.arange(len(ordered) + 1) / len(ordered)
        x = np.concatenate([ordered[:1], ordered])
        axis.plot(x, heights, drawstyle="steps-post", label=label, **style)


def save(figure: Figure, path: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write a figure, as PNG and SVG unless told otherwise; `path` is without the ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Laid out once: doing it again for the second format would take as long as the drawing.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    targets = {ending: path.with_name(f"{path.name}.{ending}") for ending in formats}
    for ending, target in targets.items():
        metadata = {"Date": None} if ending == "svg" else None
        with mpl.rc_context(_RC):
            write_atomically(target, partial(figure.savefig, format=ending, metadata=metadata))
    return list(targets.values())
