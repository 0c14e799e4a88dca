"""How the plots look: colours and line styles that stay apart in greyscale, and saving."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedau_flwr.files import write_atomically
from simulations.methods.base import PALETTE, Look

FORMATS = ("png", "svg")

_ROOM_FOR = 4
"""Lines that a picture of usual height has room for."""

_RC: dict[Any, Any] = {
    "figure.dpi": 100,
    "savefig.dpi": 150,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "fedau",
}


Looks = Mapping[str, Look | None]


def line_styles(labels: Iterable[str], looks: Looks | None = None) -> dict[str, dict[str, Any]]:
    """Return colour and line style by label: those of `looks`, for others any that are free."""
    return {
        label: {"color": look.colour, "linestyle": look.dashes, "linewidth": 1.8}
        for label, look in _chosen(labels, looks or {}).items()
    }


def nested_styles(labels: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return styles for lines that lie on each other: from wide and light to thin and dark."""
    labels = list(labels)
    styles = {}
    for number, label in enumerate(labels):
        shade = f"{0.8 * (1 - (number + 1) / len(labels)):.3f}"
        width = 1.2 + 1.6 * (len(labels) - 1 - number)
        styles[label] = {"color": shade, "linewidth": width, "solid_capstyle": "butt"}
    return styles


def bar_styles(labels: Iterable[str], looks: Looks | None = None) -> dict[str, dict[str, Any]]:
    """Return colour and hatching by label."""
    return {
        label: {"facecolor": look.colour, "hatch": look.hatch, "edgecolor": "white", "linewidth": 0}
        for label, look in _chosen(labels, looks or {}).items()
    }


def _chosen(labels: Iterable[str], looks: Looks) -> dict[str, Look]:
    """Return a look for each label; those that nobody has as their own come first."""
    labels = list(labels)
    free = [look for look in PALETTE if look not in [looks.get(label) for label in labels]]
    free = free or list(PALETTE)
    chosen, number = {}, 0
    for label in labels:
        own = looks.get(label)
        if own is None:
            colour = free[number % len(free)].colour
            # The second time round, colours meet other line styles.
            other = PALETTE[
                (PALETTE.index(free[number % len(free)]) + number // len(free)) % len(PALETTE)
            ]
            own, number = Look(colour, other.dashes, other.hatch), number + 1
        chosen[label] = own
    return chosen


def new_figure(
    width: float, height: float, *, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its axes, row by row."""
    with mpl.rc_context(_RC):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.flat)


def height_for(lines: int) -> float:
    """Return the height of a row of panels: more lines get more room to be told apart."""
    return 4.4 + 0.5 * max(0, lines - _ROOM_FOR)


def new_mosaic(width: float, height: float, rows: list[str]) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure and its axes by letter; a letter that is repeated makes its axes wider."""
    with mpl.rc_context(_RC):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplot_mosaic([list(row) for row in rows])
    return figure, axes


def legend_below(figure: Figure, axes: Axes, *, columns: int = 4) -> None:
    """Put the legend of `axes` below all of a figure's panels, where it covers no line."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(columns, len(labels)),
        frameon=False,
        handlelength=3.4,
    )


def save(figure: Figure, path: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write a figure, as PNG and SVG unless told otherwise; `path` is without the ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Laid out once: doing it again for the second format would take as long as the drawing.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    written = []
    for ending in formats:
        target = path.with_name(f"{path.name}.{ending}")
        metadata = {"Date": None} if ending == "svg" else None

        def write(file: Any, ending: str = ending, metadata: Any = metadata) -> None:
            with mpl.rc_context(_RC):
                figure.savefig(file, format=ending, metadata=metadata)

        write_atomically(target, write)
        written.append(target)
    return written
