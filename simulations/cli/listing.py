"""``fedau methods``, ``fedau tasks`` and ``fedau patterns``: what there is, users' own included."""

from __future__ import annotations

from typing import Any

import typer

from simulations.cli.invocation import sentences
from simulations.methods import METHODS
from simulations.patterns import PATTERNS
from simulations.registry import ConfigError, Registry
from simulations.tasks import TASKS

ALL_METHODS = ",".join(METHODS.ours())
"""What a comparison has if nobody says otherwise."""


def methods_command() -> None:
    """List the methods, with their parameters and defaults."""
    _show(METHODS)


def tasks_command() -> None:
    """List the tasks (data and model), with their parameters and defaults."""
    _show(TASKS)


def patterns_command() -> None:
    """List the participation patterns, with their parameters and defaults."""
    _show(PATTERNS)


def _show(registry: Registry[Any]) -> None:
    with sentences():
        names = registry.names()
        width = max(map(len, names))
        for name in names:
            typer.echo(f"{name:{width}}  {_line(registry, name)}")


def _line(registry: Registry[Any], name: str) -> str:
    """Return what a class says of itself; one that cannot be imported hides no other."""
    try:
        return str(registry.named(name).summary())
    except ConfigError as error:
        return str(error)
