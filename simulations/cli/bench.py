"""The command `fedau bench`."""

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from simulations.bench.report import describe_machine, save, show
from simulations.bench.settings import BenchSettings, cifar10_or_random, full, quick
from simulations.config import ConfigError
from simulations.launch.runner import check_writable
from simulations.launch.signals import orderly_end
from simulations.tasks.arrays import default_data_dir

_DATA = "Data sets; without CIFAR-10, random images are used.  [default: the user's cache]"


def bench(
    data_dir: Annotated[Path | None, typer.Option(help=_DATA)] = None,
    out: Annotated[
        Path, typer.Option(help="Where the JSON file goes; the table goes beside it as Markdown.")
    ] = Path("bench.json"),
    peers: Annotated[
        Path | None,
        typer.Option(help="Compare with other frameworks; their environments are or go here."),
    ] = None,
    authors: Annotated[
        Path | None,
        typer.Option(help="The authors' program, a clone of their repository; needs --peers."),
    ] = None,
    tiny: Annotated[
        bool, typer.Option("--quick", help="The smallest sizes: every row, no meaning.")
    ] = False,
) -> None:
    """Measure what this software costs, as ratios, and print them beside their goals.

    It takes up to twelve minutes on two cores that do nothing else.
    """
    # torch takes seconds, which no other command has to wait for.
    from simulations.bench.measure import measure  # noqa: PLC0415

    out = _checked(out, peers, authors, tiny=tiny)
    console, machine, start = Console(), describe_machine(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fedau-bench-") as name, orderly_end():
        scratch = Path(name)
        settings, images = _sizes(data_dir or default_data_dir(), scratch / "data", tiny=tiny)
        place, program = (path and path.expanduser().resolve() for path in (peers, authors))
        settings = replace(settings, environments=place, authors=program)

        def say(what: str) -> None:
            past = time.monotonic() - start
            console.print(f"{past:4.0f} s: measuring {what} …", highlight=False)

        rows = measure(settings, scratch, say)
    seconds = time.monotonic() - start
    show(rows, machine, console)
    save(
        out, rows, machine=machine, data=images, quick=tiny, seconds=round(seconds),
        repetitions=settings.repetitions, workers=settings.workers,
        run=settings.config.to_dict() | {"data-dir": ""},
        scale=settings.scale.to_dict() | {"data-dir": ""},
    )  # fmt: skip
    console.print(f"{seconds:.0f} s; the numbers are in {out}.", highlight=False, soft_wrap=True)


def _checked(out: Path, peers: Path | None, authors: Path | None, *, tiny: bool) -> Path:
    """Refuse now what would fail when all is measured, and return where the file goes."""
    if authors is not None and not (peers and (authors / "main.py").is_file()):
        rule = "a folder with the authors' main.py, together with --peers"
        raise ConfigError(f"authors is {str(authors)!r}, but must be {rule}.")
    if peers is not None and tiny:
        raise ConfigError("quick is True, but must be False with --peers: they need CIFAR-10.")
    if out.suffix != ".json":
        raise ConfigError(f"out is {str(out)!r}, but must be the name of a .json file.")
    out = out.expanduser().resolve()
    check_writable("the directory of out", out.parent)
    return out


def _sizes(known: Path, scratch: Path, *, tiny: bool) -> tuple[BenchSettings, str]:
    """Return how much is measured, and the name of the images."""
    if tiny:
        return quick(scratch), "synthetic"
    data, images = cifar10_or_random(known.expanduser().resolve(), scratch)
    return full(data, scratch), images
