"""`fedau privacy`: a calculator of what differential privacy costs."""

import csv
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from ..checks import check, check_delta
from .calculator import COLUMNS, Option, effective_noise, least_separation, options, rounds_within
from .gdp import composed, delta_of, participations

DELTA = 1e-5
SEPARATIONS = (1, 2, 5, 10, 20, 50, 100, 200)
_LINES = {"plain": "--", "separated": "-.", "best bands": ":", "buffers": "-"}


def privacy(
    *,
    rounds: Annotated[int | None, typer.Option(min=1, help="Sums that are released.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="ε to keep.")] = None,
    noise_multiplier: Annotated[
        float | None, typer.Option(help="Noise on a sum in units of the norm.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="δ of the whole training, 1e-5 if it is not asked for.")
    ] = None,
    separation: Annotated[
        int | None, typer.Option(min=1, help="A client takes part at most once in so many rounds.")
    ] = None,
    participations: Annotated[int | None, typer.Option(min=1, help="And so often at most.")] = None,
    population: Annotated[
        int | None, typer.Option(min=1, help="N, to say how much noise is on a mean.")
    ] = None,
    separations: Annotated[
        str, typer.Option(help="Several separations for --plot and --csv, with commas.")
    ] = ",".join(map(str, SEPARATIONS)),
    plot: Annotated[
        Path | None, typer.Option(help="Draw effective noise against the separation to this file.")
    ] = None,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", help="Write that as a table to this file.")
    ] = None,
) -> None:
    """Say what differential privacy costs: plain, with separated turns, with correlated noise.

    Of ε, the noise multiplier and the rounds, give two: the third follows. With all three it is the
    separation that follows, and with that the δ.
    """
    found = _solved(
        epsilon, noise_multiplier, rounds, delta=delta, separation=separation, limit=participations
    )
    table = options(
        delta=found["delta"],
        rounds=found["rounds"],
        epsilon=found["epsilon"],
        noise_multiplier=found["noise_multiplier"] if found["epsilon"] is None else None,
        separation=found["separation"],
        limit=participations,
    )
    _show(table, population)
    if plot or csv_file:
        several = _separations(separations, found["rounds"])
        target = table[1].epsilon if found["epsilon"] is None else found["epsilon"]
        asked = {"delta": found["delta"], "rounds": found["rounds"], "separations": several}
        _write(plot, csv_file, {"epsilon": target, **asked})


def _show(table: Iterable[Option], population: int | None) -> None:
    row = "{:20} {:>14} {:>16} {:>14} {:>8} {:>8} {:>13}".format
    head = ("participations", "noise multiplier", "relative error", "ε", "vectors")
    typer.echo(row("noise", *head, "noise on mean" if population else "").rstrip())
    for way in table:
        numbers = f"{way.noise_multiplier:.3f}", f"{way.error:.4f}", f"{way.epsilon:.3f}"
        mean = f"{way.noise_multiplier / population:.3g}" if population else ""
        typer.echo(row(way.name, way.participations, *numbers, way.vectors, mean).rstrip())


def _solved(
    epsilon: float | None,
    noise: float | None,
    rounds: int | None,
    *,
    delta: float | None,
    separation: int | None,
    limit: int | None,
) -> dict[str, Any]:
    """Return all numbers, one of which may follow from the others, and say which."""
    if (epsilon, noise, rounds).count(None) > 1:
        raise ValueError("two of --epsilon, --noise-multiplier and --rounds must be given.")
    if epsilon is None or noise is None:
        pass
    elif rounds is None:
        rounds = rounds_within(epsilon, delta or DELTA, noise, separation or 1)
        typer.echo(f"rounds: {rounds}")
        check("noise_multiplier", noise, rounds, "larger for one round")
    elif separation is None:
        separation = least_separation(epsilon, delta or DELTA, noise, rounds)
        typer.echo(f"separation: {separation}")
    else:
        delta = delta_of(epsilon, composed(noise, participations(rounds, separation, limit)))
        typer.echo(f"delta: {delta:.3g}")
        check_delta(delta)
    return {
        "epsilon": epsilon,
        "noise_multiplier": noise,
        "rounds": rounds,
        "delta": delta or DELTA,
        "separation": separation or 1,
    }


def _separations(text: str, rounds: int) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    fine = all(part.isdecimal() and int(part) >= 1 for part in parts)
    check("separations", text, fine, "like 1,10,50")
    return [int(part) for part in parts if int(part) <= rounds]


def _write(plot: Path | None, csv_file: Path | None, asked: dict[str, Any]) -> None:
    if plot is not None and find_spec("matplotlib") is None:
        raise ValueError("--plot needs matplotlib: run `pip install 'fedau-flwr[privacy]'`.")
    rows = effective_noise(**asked)
    try:
        if csv_file is not None:
            with csv_file.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(COLUMNS)
                for row in rows:
                    writer.writerow([f"{x:.4f}" if isinstance(x, float) else x for x in row])
        if plot is not None:
            _draw(plot, rows, "ε = {epsilon:g}, δ = {delta:g}, {rounds} rounds".format(**asked))
    except (OSError, ValueError) as error:
        raise ValueError(f"{plot or csv_file} cannot be written: {error}.") from None


def _draw(path: Path, rows: list[tuple[Any, ...]], title: str) -> None:
    """Draw what is left of the noise, in all ways, against the separation."""
    from matplotlib.figure import Figure  # noqa: PLC0415 -- only this command needs it

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
        title=title,
    )
    axes.grid(alpha=0.25)
    axes.legend()
    figure.savefig(path, dpi=150)
