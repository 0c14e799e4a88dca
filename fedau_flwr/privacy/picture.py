"""The picture of `fedau privacy --plot`: what is left of the noise, against the separation."""

from collections.abc import Iterable
from pathlib import Path

from .calculator import effective_noise

_LINES = {"plain": "--", "separated": "-.", "best bands": ":", "buffers": "-"}


def draw_noise(
    path: Path, *, epsilon: float, delta: float, rounds: int, separations: Iterable[int]
) -> None:
    """Draw the effective noise of all ways into a file; matplotlib has to be installed."""
    from matplotlib.figure import Figure  # noqa: PLC0415 -- only this command needs it

    rows = effective_noise(epsilon=epsilon, delta=delta, rounds=rounds, separations=separations)
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot()
    for name, dashes in _LINES.items():
        points = [(row[0], row[-1]) for row in rows if row[1] == name]
        axes.plot(*zip(*points, strict=True), dashes, marker="o", markersize=3, label=name)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="separation b: a client takes part at most once in b rounds",
        ylabel="effective noise, plain noise = 1",
        title=f"ε = {epsilon:g}, δ = {delta:g}, {rounds} rounds",
    )
    axes.grid(alpha=0.25)
    axes.legend()
    figure.savefig(path, dpi=150)
