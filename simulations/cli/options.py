"""Command line options: those that commands share, and one per key of the run config."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import Field, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from simulations.cli.invocation import Command
from simulations.config import RunConfig, key_of
from simulations.launch.runner import Resources
from simulations.methods import METHODS

Values = dict[str, Any]
MakeResources = Callable[[], Resources]
Seeds = Annotated[str, typer.Option(help="Seeds, as in 1,2 or 1-5.")]

ALL_METHODS = ",".join(METHODS.ours())
"""What a comparison has if nobody says otherwise."""

_NAMES = {"num_server_rounds": "rounds"}
_PATHS = ("data_dir", "run_dir")
_HINTS = {**get_type_hints(RunConfig), **get_type_hints(Resources)}


def run_options(
    *, without: Iterable[str] = (), only: Iterable[str] | None = None, optional: bool = False
) -> Callable[[Command], Command]:
    """Give a command an option per key of the run config, and those of `Resources` if it has them.

    The command receives the run config's as the dict `values`, where `optional` without what the
    user did not give, and `resources` as a function, since making them can fail.
    """
    names = {item.name for item in fields(RunConfig)} if only is None else set(only)
    chosen = [item for item in fields(RunConfig) if item.name in names.difference(without)]

    def decorate(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = [item for item in own if item.name not in ("values", "resources")]
        parameters += [_parameter(item, optional=optional) for item in chosen]
        resources = fields(Resources) if any(item.name == "resources" for item in own) else ()
        parameters += [_parameter(item) for item in resources]

        def wrapper(**given: Any) -> None:
            values = {item.name: given.pop(item.name) for item in chosen}
            values = {name: value for name, value in values.items() if value is not None}
            for name in _PATHS:
                if values.get(name):
                    values[name] = str(Path(values[name]).expanduser().resolve())
            settings = {item.name: given.pop(item.name) for item in resources}
            if resources:
                given["resources"] = lambda: Resources(**settings)
            command(**given, values=values)

        wrapper.__doc__ = command.__doc__
        wrapper.__name__ = command.__name__
        wrapper.__annotations__ = {item.name: item.annotation for item in parameters}
        vars(wrapper)["__signature__"] = inspect.Signature(parameters)
        return wrapper

    return decorate


def _per_node(text: str) -> int:
    """Return the number of clients per node, 0 for auto."""
    if text == "auto":
        return 0
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither a number nor auto.") from None


def _parameter(item: Field[Any], *, optional: bool = False) -> inspect.Parameter:
    """Return the parameter that typer makes an option of."""
    name = key_of(_NAMES.get(item.name, item.name))
    kind = _HINTS[item.name] | None if optional else _HINTS[item.name]
    parser = _per_node if item.name == "clients_per_node" else None
    option = typer.Option(f"--{name}", help=item.metadata["help"], parser=parser)
    return inspect.Parameter(
        item.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None if optional else item.default,
        annotation=Annotated[kind, option],
    )
