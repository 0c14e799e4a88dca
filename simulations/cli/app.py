"""The commands of the simulation suite, added to the console script `fedau`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from simulations.cli import deploy as deployment
from simulations.cli.bench import bench
from simulations.cli.data import app as data_app
from simulations.cli.invocation import (
    distinct,
    end,
    method_list,
    method_settings,
    new_directory,
    run_name,
    seed_list,
    sentences,
)
from simulations.cli.listing import ALL_METHODS, methods_command, patterns_command, tasks_command
from simulations.cli.options import run_options
from simulations.cli.report import register as register_reports
from simulations.config import MAY_CHANGE, RunConfig
from simulations.launch.runner import Resources, run_all
from simulations.runs.directory import RunDirectory
from simulations.runs.resumption import run_missing

MakeResources = Callable[[], Resources]

COMPARED = ("curves", "classes")
"""The plots of a comparison."""


@run_options(without=("resume",))
def run(values: dict[str, Any], resources: MakeResources) -> None:
    """Run one experiment; Ctrl-C stops it after the round with a checkpoint.

    The data are in the user's cache and the results in a new directory in ./runs unless said
    otherwise.
    """
    with sentences():
        config = RunConfig(**values)
        if not config.run_dir:
            name = f"{config.algorithm.slug}-{config.task.slug}-seed{config.seed}"
            config = replace(config, run_dir=str(new_directory(name)))
        end(run_all([config], resources(), Console(), where=Path(config.run_dir), reports=True))


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
        if not config.participation.simulated:
            raise typer.Exit(deployment.resume_deployment(path, config, federation))
        end(run_all([config], resources(), Console(), where=path, reports=True))


@run_options(without=("resume", "run_dir", "method", "seed"))
def compare(
    *,
    values: dict[str, Any],
    resources: MakeResources,
    methods: Annotated[
        str,
        typer.Option(
            help="Methods, with commas between them, as --method of `fedau run` has them; +secure "
            "at the end makes the sum secure."
        ),
    ] = ALL_METHODS,
    seeds: Annotated[str, typer.Option(help="Seeds, as in 1,2 or 1-5; the paper has 1-5.")] = "1",
    out: Annotated[
        Path | None, typer.Option(help="Directory of the runs; a new one in ./runs by default.")
    ] = None,
) -> None:
    """Run several methods under the same participation, data and batches, and print a table.

    With --out of an earlier comparison, what is done is kept and what was interrupted goes on.
    """
    from simulations.report.presentation import present  # noqa: PLC0415 -- matplotlib takes a second

    with sentences():
        console = Console()
        parent = (out or new_directory("compare")).expanduser().resolve()
        configs = distinct(
            _variant(values, parent, method, seed)
            for seed, method in product(seed_list(seeds), method_list(methods))
        )
        outcomes = run_missing(configs, resources(), console, where=parent)
        paths = [Path(config.run_dir) for config in configs]
        present(paths, parent, console, kinds=COMPARED)
        end(outcomes)


def _variant(values: dict[str, Any], parent: Path, method: str, seed: int) -> RunConfig:
    """Return the settings of one run of a comparison."""
    config = RunConfig(**{**values, **method_settings(method), "seed": seed})
    return replace(config, run_dir=str(parent / run_name(config)))


def register(app: typer.Typer) -> None:
    """Add the suite's commands."""
    commands: tuple[Callable[..., None], ...] = (run, compare, resume, bench)
    for command in commands:
        app.command()(command)
    app.command("methods")(methods_command)
    app.command("tasks")(tasks_command)
    app.command("patterns")(patterns_command)
    register_reports(app)
    app.add_typer(data_app, name="data")
    deployment.register(app)
