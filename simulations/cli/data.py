"""``fedau data prepare``: builds the array files of a data set."""

from pathlib import Path
from typing import Annotated

import typer

from simulations.cli.invocation import sentences
from simulations.tasks import TASKS
from simulations.tasks.arrays import default_data_dir

app = typer.Typer(help="Data sets of the experiments.", no_args_is_help=True)


@app.callback()
def _data() -> None:
    """Keep `prepare` a command of its own, although it is the only one."""


@app.command("prepare")
def prepare_command(
    name: Annotated[str, typer.Argument(help="A task, as `fedau tasks` lists them.")],
    data_dir: Annotated[
        Path | None, typer.Option(help="Where data sets are kept.  [default: the user's cache]")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Official files that are already there, instead of a download"),
    ] = None,
    seed: Annotated[int, typer.Option(help="What the synthetic set is made from.")] = 1,
) -> None:
    """Build the array files of a data set: by download, from files, or from a seed."""
    with sentences():
        task = TASKS.find(name)
        folder = task.prepare((data_dir or default_data_dir()).resolve(), source=source, seed=seed)
    typer.echo(
        f"{task.title}: {task.train_count} training and {task.test_count} test "
        f"samples are in {folder}"
    )
