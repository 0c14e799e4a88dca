"""``fedau data prepare``: builds the array files of a data set."""

from pathlib import Path
from typing import Annotated

import typer

from simulations.tasks import TASKS
from simulations.tasks.arrays import default_data_dir


def prepare(
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
    task = TASKS.find(name)
    folder = task.prepare((data_dir or default_data_dir()).resolve(), source=source, seed=seed)
    counts = f"{task.train_count} training and {task.test_count} test samples"
    typer.echo(f"{task.title}: {counts} are in {folder}")
