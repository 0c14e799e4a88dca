"""The console script `fedau`.

What an operator needs beside a running federation is here; everything else belongs to the
simulation suite, which is used from a clone and no part of the installed package.
"""

import functools
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from .checks import check
from .client.state_directory import describe
from .privacy.command import privacy
from .secure.identity import Identity, Roster

USER_ERROR = 2
_NAME = b'name = "fedau-flwr"'

app = typer.Typer(
    help="FedAU for Flower: federated learning with clients that come and go.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
state_app = typer.Typer(help="Look at the state that clients keep.", no_args_is_help=True)
app.add_typer(state_app, name="state")
keys_app = typer.Typer(help="Make the keys of clients, and rosters of them.", no_args_is_help=True)
app.add_typer(keys_app, name="keys")


def _in_a_sentence(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that ends with one sentence where a value makes no sense."""

    @functools.wraps(command)
    def run(**options: object) -> None:
        try:
            command(**options)
        except ValueError as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(USER_ERROR) from None

    return run


app.command("privacy")(_in_a_sentence(privacy))


@state_app.command("show")
@_in_a_sentence
def show_state(
    directory: Annotated[Path, typer.Argument(help="A client's fedau-state-dir.")],
) -> None:
    """Print the participation state of all clients below DIRECTORY in plain words."""
    check("DIRECTORY", str(directory), directory.is_dir(), "an existing directory")
    if not (lines := list(describe(directory))):
        rule = "must hold the state of at least one client"
        raise ValueError(f"DIRECTORY is {str(directory)!r}, but {rule}.")
    typer.echo("\n".join(lines))


@keys_app.command("new")
@_in_a_sentence
def new_key(
    directory: Annotated[Path, typer.Argument(help="The client's fedau-state-dir.")],
    name: Annotated[
        str | None, typer.Option(help="The client's name; that of DIRECTORY if not given.")
    ] = None,
) -> None:
    """Make a client's key in DIRECTORY, and print the public line for the roster."""
    typer.echo(Identity.create(directory, name or directory.resolve().name).line)


@keys_app.command("roster")
@_in_a_sentence
def make_roster(
    files: Annotated[list[Path], typer.Argument(help="Files of public lines.")],
) -> None:
    """Print the roster of all clients whose public lines are in FILES."""
    typer.echo(Roster.load(*files).to_toml(), nl=False)


def find_suite() -> Path | None:
    """Return the clone that holds the simulation suite: around here, or around this package."""
    for place in (Path.cwd(), *Path.cwd().parents, Path(__file__).resolve().parents[1]):
        suite, project = place / "simulations" / "cli" / "app.py", place / "pyproject.toml"
        # Other projects may have `simulations` as well.
        if suite.is_file() and project.is_file() and _NAME in project.read_bytes():
            return place
    return None


def main() -> None:
    """Run the command line, with the simulation suite's commands where there is a clone."""
    suite = find_suite()
    if suite is None and sys.argv[1:] and sys.argv[1] not in {"state", "keys", "privacy", "--help"}:
        typer.echo(
            f"`fedau {sys.argv[1]}` belongs to the simulation suite, which is used from a clone of "
            "the fedau-flwr repository: run it there.",
            err=True,
        )
        sys.exit(USER_ERROR)
    if suite is not None:
        sys.path.insert(0, str(suite))
        try:
            importlib.import_module("simulations.cli.app").register(app)
        except ModuleNotFoundError as missing:
            typer.echo(
                f"The simulation suite needs the module {missing.name!r}: "
                "run `pip install -e '.[simulations]'` in the clone.",
                err=True,
            )
    app(prog_name="fedau")
