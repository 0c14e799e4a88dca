"""The commands of the simulation suite, added to the console script `fedau`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from simulations.config import MAY_CHANGE, ConfigError, RunConfig
from simulations.data.command import app as data_app
from simulations.data.spec import METHODS, DataError
from simulations.failures import RunFailure
from simulations.launch import Resources, run_all
from simulations.options import run_options
from simulations.run_directory import RunDirectory
from simulations.summary import comparison, label

TABLE_WIDTH = 120
FAILED, USER_ERROR, INTERRUPTED = 1, 2, 130

MakeResources = Callable[[], Resources]


@contextmanager
def sentences() -> Iterator[None]:
    """Turn what can go wrong into one sentence and an exit code."""
    try:
        yield
    except (ConfigError, DataError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(USER_ERROR) from None
    except RunFailure as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _directory(name: str) -> Path:
    now = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    return Path.cwd() / "runs" / f"{now}-{name}"


def _end(outcomes: list[dict[str, Any]]) -> None:
    if outcomes[-1]["status"] == "stopped":
        raise typer.Exit(INTERRUPTED)


@run_options(without=("resume",))
def run(values: dict[str, Any], resources: MakeResources) -> None:
    """Run one experiment; Ctrl-C stops it after the round with a checkpoint.

    The results go to a new directory in ./runs unless said otherwise.
    """
    with sentences():
        name = f"{values['method']}-{values['dataset']}-seed{values['seed']}"
        config = RunConfig(**{**values, "run_dir": values["run_dir"] or str(_directory(name))})
        _end(run_all([config], resources(), Console(), where=Path(config.run_dir), reports=True))


@run_options(only=MAY_CHANGE - {"resume", "run_dir"}, optional=True)
def resume(
    directory: Annotated[Path, typer.Argument(help="The directory of the run.")],
    values: dict[str, Any],
    resources: MakeResources,
) -> None:
    """Go on with a run from its last checkpoint; options that are not given stay as they were."""
    with sentences():
        path = directory.expanduser().resolve()
        saved = {
            key.replace("-", "_"): v for key, v in RunDirectory(path).config().to_dict().items()
        }
        config = RunConfig(**{**saved, **values, "run_dir": str(path), "resume": True})
        _end(run_all([config], resources(), Console(), where=path, reports=True))


@run_options(without=("resume", "run_dir", "method", "seed"))
def compare(
    *,
    values: dict[str, Any],
    resources: MakeResources,
    methods: Annotated[
        str, typer.Option(help="Methods, with commas between them; fedau:K sets its cutoff.")
    ] = ",".join(METHODS),
    seeds: Annotated[str, typer.Option(help="Seeds, as in 1,2 or 1-5; the paper has 1-5.")] = "1",
    out: Annotated[
        Path | None, typer.Option(help="Directory of the runs; a new one in ./runs by default.")
    ] = None,
) -> None:
    """Run several methods under the same participation, data and batches, and print a table."""
    with sentences():
        console = Console()
        parent = (out or _directory("compare")).expanduser().resolve()
        configs = [
            _variant(values, parent, method.strip(), seed)
            for seed, method in product(_seeds(seeds), methods.split(","))
        ]
        outcomes = run_all(configs, resources(), console, where=parent)
        wide = Console(width=max(console.width, TABLE_WIDTH))
        for table in comparison([Path(config.run_dir) for config in configs[: len(outcomes)]]):
            wide.print(table)
        _end(outcomes)


def _variant(values: dict[str, Any], parent: Path, method: str, seed: int) -> RunConfig:
    """Return the settings of one run of a comparison."""
    name, _, cutoff = method.partition(":")
    changes: dict[str, Any] = {"method": name, "seed": seed}
    if cutoff:
        if name != "fedau" or not cutoff.isdecimal():
            raise ConfigError(
                f"methods has {method!r}, but a cutoff goes with fedau, as in fedau:50 or fedau:0."
            )
        changes["cutoff"] = int(cutoff)
    config = RunConfig(**{**values, **changes})
    folder = label(config).replace(" K=", "-").replace("∞", "infinity")
    return replace(config, run_dir=str(parent / f"{folder}-seed{seed}"))


def _seeds(text: str) -> list[int]:
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ConfigError(f"seeds is {text!r}, but must be like 1,2 or 1-5.")
        seeds += range(int(first), int(last or first) + 1)
    if not seeds:
        raise ConfigError(f"seeds is {text!r}, but must name at least one.")
    return seeds


def register(app: typer.Typer) -> None:
    """Add the suite's commands."""
    commands: tuple[Callable[..., None], ...] = (run, compare, resume)
    for command in commands:
        app.command()(command)
    app.add_typer(data_app, name="data")
