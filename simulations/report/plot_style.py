"""How the plots look: colours and line styles that stay apart in greyscale, and saving."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedau_flwr.files import write_atomically

FORMATS = ("png", "svg")

_ROOM_FOR = 4
"""Lines that a picture of usual height has room for."""

_SOLID, _DASHED, _DOTTED, _DASH_DOT = "-", (0, (5, 2)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5))
_LONG, _DASH_DOT_DOT, _WIDE = (0, (9, 2)), (0, (4, 1.5, 1, 1.5, 1, 1.5)), (0, (2, 3))
_UNEVEN = (0, (7, 1.5, 3, 1.5))

_BY_METHOD: dict[str, tuple[str, Any, str]] = {
    "fedau K=50": ("#0072B2", _SOLID, ""),
    "fedau K=∞": ("#56B4E9", _DASHED, "//"),
    "average-participating": ("#D55E00", _DASH_DOT, "xx"),
    "average-all": ("#E69F00", _DOTTED, ".."),
    "fedvarp": ("#009E73", _LONG, "\\\\"),
    "mifa": ("#CC79A7", _DASH_DOT_DOT, "++"),
    "known-statistics": ("#000000", _WIDE, "--"),
    "fedavg": ("#8C510A", _UNEVEN, "oo"),
}
_OTHERS = list(_BY_METHOD.values())

_RC = {
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


def line_styles(labels: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return colour and line style by label: the methods have their own, the others any."""
    styles = {}
    for number, label in enumerate(labels):
        colour, line, _ = _look(label, number)
        styles[label] = {"color": colour, "linestyle": line, "linewidth": 1.8}
    return styles


def nested_styles(labels: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return styles for lines that lie on each other: from wide and light to thin and dark."""
    labels = list(labels)
    styles = {}
    for number, label in enumerate(labels):
        shade = f"{0.8 * (1 - (number + 1) / len(labels)):.3f}"
        width = 1.2 + 1.6 * (len(labels) - 1 - number)
        styles[label] = {"color": shade, "linewidth": width, "solid_capstyle": "butt"}
    return styles


def bar_styles(labels: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return colour and hatching by label."""
    styles = {}
    for number, label in enumerate(labels):
        colour, _, hatch = _look(label, number)
        styles[label] = {"facecolor": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0}
    return styles


def _look(label: str, number: int) -> tuple[str, Any, str]:
    if label in _BY_METHOD:
        return _BY_METHOD[label]
    colour = _OTHERS[number % len(_OTHERS)][0]
    # The second time round, colours meet other line styles.
    _, line, hatch = _OTHERS[(number + number // len(_OTHERS)) % len(_OTHERS)]
    return colour, line, hatch


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
