"""The commands of the simulation suite, added to the console script `fedau`."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from simulations.cli import invocation, page, report
from simulations.cli.bench import bench
from simulations.cli.data import prepare
from simulations.cli.deploy import local, resume_deployment
from simulations.cli.options import ALL_METHODS, MakeResources, Values, run_options
from simulations.config import MAY_CHANGE, RunConfig
from simulations.launch.runner import run_all
from simulations.methods import METHODS
from simulations.patterns import PATTERNS
from simulations.registry import ConfigError, Registry
from simulations.report.results import present
from simulations.runs.directory import RunDirectory
from simulations.runs.resumption import run_missing
from simulations.tasks import TASKS

COMPARED = ("curves", "classes")
"""The plots of a comparison."""


@run_options(without=("resume",))
def run(values: Values, resources: MakeResources) -> None:
    """Run one experiment; Ctrl-C stops it after the round with a checkpoint.

    The data are in the user's cache and the results in a new directory in ./runs unless said
    otherwise.
    """
    config = RunConfig(**values)
    if not config.run_dir:
        name = f"{config.algorithm.slug}-{config.task.slug}-seed{config.seed}"
        config = replace(config, run_dir=str(invocation.new_directory(name)))
    where = Path(config.run_dir)
    invocation.end(run_all([config], resources(), Console(), where=where, reports=True))


@run_options(only=MAY_CHANGE - {"resume", "run_dir"}, optional=True)
def resume(
    directory: Annotated[Path, typer.Argument(help="The directory of the run.")],
    values: Values,
    resources: MakeResources,
    federation: Annotated[
        str | None, typer.Option(help="For a run on a deployment: its name in ~/.flwr/config.toml.")
    ] = None,
) -> None:
    """Go on with a run from its last checkpoint; options that are not given stay as they were."""
    path = directory.expanduser().resolve()
    saved = RunDirectory(path).config()
    config = replace(saved, **{**values, "run_dir": str(path), "resume": True})
    if not config.participation.simulated:
        raise typer.Exit(resume_deployment(path, config, federation))
    invocation.end(run_all([config], resources(), Console(), where=path, reports=True))


@run_options(without=("resume", "run_dir", "method", "seed"))
def compare(
    *,
    values: Values,
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
    console = Console()
    parent = (out or invocation.new_directory("compare")).expanduser().resolve()
    configs = []
    for seed, method in product(invocation.seed_list(seeds), invocation.method_list(methods)):
        config = RunConfig(**{**values, **invocation.method_settings(method), "seed": seed})
        configs.append(replace(config, run_dir=str(parent / invocation.run_name(config))))
    configs = invocation.distinct(configs)
    outcomes = run_missing(configs, resources(), console, where=parent)
    present([Path(config.run_dir) for config in configs], parent, console, kinds=COMPARED)
    invocation.end(outcomes)


def methods() -> None:
    """List the methods, with their parameters and defaults."""
    _list(METHODS)


def tasks() -> None:
    """List the tasks (data and model), with their parameters and defaults."""
    _list(TASKS)


def patterns() -> None:
    """List the participation patterns, with their parameters and defaults."""
    _list(PATTERNS)


def _list(registry: Registry[Any]) -> None:
    """Print what the classes say of themselves; one that cannot be imported hides no other."""
    width = max(map(len, registry.names()))
    for name in registry.names():
        try:
            line = registry.named(name).summary()
        except ConfigError as error:
            line = str(error)
        typer.echo(f"{name:{width}}  {line}")


def register(app: typer.Typer) -> None:
    """Add the suite's commands."""
    invocation.add_commands(app, run, compare, resume, bench, methods, tasks, patterns)
    report.register(app)
    invocation.add_commands(app, page.watch, page.report)
    data = typer.Typer(name="data", help="Data sets of the experiments.", no_args_is_help=True)
    deploy = typer.Typer(name="deploy", help="Real federations.", no_args_is_help=True)
    for group, command in ((data, prepare), (deploy, local)):
        invocation.add_commands(group, command)
        app.add_typer(group)
