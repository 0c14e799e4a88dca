"""The commands of the simulation suite, added to the console script `fedau`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from simulations.config import MAY_CHANGE, ConfigError, RunConfig
from simulations.data.prepare import prepare
from simulations.data.spec import DATASETS, METHODS, DataError, dataset
from simulations.deployment import command
from simulations.failures import RunFailure
from simulations.launch import Resources, run_all
from simulations.options import run_options
from simulations.patterns import REAL
from simulations.run_directory import RunDirectory
from simulations.summary import comparison, label

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


def _settings(values: dict[str, Any], **changes: Any) -> RunConfig:
    """Return a run config with the command line's own places for data and runs."""
    config = {**values, **changes}
    return RunConfig(**{**config, "data_dir": config["data_dir"] or str(Path.cwd() / "data")})


def _directory(name: str) -> Path:
    now = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    return Path.cwd() / "runs" / f"{now}-{name}"


def _end(outcomes: list[dict[str, Any]]) -> None:
    if outcomes[-1]["status"] == "stopped":
        raise typer.Exit(INTERRUPTED)


@run_options(without=("resume",))
def run(values: dict[str, Any], resources: MakeResources) -> None:
    """Run one experiment; Ctrl-C stops it after the round with a checkpoint.

    The data are in ./data and the results in a new directory in ./runs unless said otherwise.
    """
    with sentences():
        name = f"{values['method']}-{values['dataset']}-seed{values['seed']}"
        config = _settings(values, run_dir=values["run_dir"] or str(_directory(name)))
        _end(run_all([config], resources(), Console(), where=Path(config.run_dir), reports=True))


@run_options(only=MAY_CHANGE - {"resume", "run_dir"}, optional=True)
def resume(
    directory: Annotated[Path, typer.Argument(help="The directory of the run.")],
    values: dict[str, Any],
    resources: MakeResources,
    federation: Annotated[
        str | None,
        typer.Option(help="For a run on a deployment: its name in ~/.flwr/config.toml."),
    ] = None,
) -> None:
    """Go on with a run from its last checkpoint; options that are not given stay as they were."""
    with sentences():
        path = directory.expanduser().resolve()
        saved = {
            key.replace("-", "_"): v for key, v in RunDirectory(path).config().to_dict().items()
        }
        config = RunConfig(**{**saved, **values, "run_dir": str(path), "resume": True})
        if config.pattern == REAL:
            raise typer.Exit(command.resume_deployment(path, config, federation))
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
        for table in comparison([Path(config.run_dir) for config in configs[: len(outcomes)]]):
            console.print(table)
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
    config = _settings(values, run_dir=str(parent), **changes)
    folder = label(config).replace(" K=", "-").replace("∞", "infinity")
    return _settings(values, run_dir=str(parent / f"{folder}-seed{seed}"), **changes)


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


def prepare_data(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(DATASETS)}.")],
    data_dir: Annotated[Path, typer.Option(help="Where the array files go.")] = Path("data"),
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Folder or archive with the official files; else a download."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the synthetic data set.")] = 1,
) -> None:
    """Build the array files of a data set."""
    with sentences():
        folder = prepare(dataset(name), data_dir.expanduser().resolve(), source=source, seed=seed)
        typer.echo(f"{dataset(name).title} is in {folder}.")


def register(app: typer.Typer) -> None:
    """Add the suite's commands."""
    functions: tuple[Callable[..., None], ...] = (run, compare, resume)
    for function in functions:
        app.command()(function)
    data = typer.Typer(help="Data sets.", no_args_is_help=True)
    data.command("prepare")(prepare_data)

    # One command alone would become `fedau data` itself.
    @data.callback()
    def _data() -> None:
        """Build data sets."""

    app.add_typer(data, name="data")
    command.register(app)
