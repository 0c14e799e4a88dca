"""What the commands of the suite have in common: errors as sentences, and how lists are read."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import typer

from fedau_flwr.server.loop import RunFailure
from simulations.config import ConfigError, RunConfig
from simulations.launch.runner import stopped
from simulations.tasks import DataError

Command = Callable[..., None]

SECURE = "+secure"
"""What the name of a method ends with where the sum is secure."""

_WRONG_PLACE = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError,
                PermissionError)  # fmt: skip
"""What comes of a path that the user gave."""

FAILED, USER_ERROR, INTERRUPTED = 1, 2, 130


@contextmanager
def sentences() -> Iterator[None]:
    """Turn what can go wrong into one sentence and an exit code."""
    try:
        yield
    except (ConfigError, DataError, RunFailure) as error:
        sentence, code = str(error), FAILED if isinstance(error, RunFailure) else USER_ERROR
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sentence = f"{where}{error.strerror or error}."
        code = USER_ERROR if isinstance(error, _WRONG_PLACE) else FAILED
    except KeyboardInterrupt:
        sentence, code = "Interrupted.", INTERRUPTED
    else:
        return
    typer.echo(sentence, err=True)
    raise typer.Exit(code)


def add_commands(app: typer.Typer, *commands: Command) -> None:
    """Add commands whose errors are sentences."""
    for command in commands:
        app.command()(sentences()(command))


def new_directory(name: str) -> Path:
    """Return a directory for results that no other command has."""
    now = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    return Path.cwd() / "runs" / f"{now}-{name}"


def end(outcomes: list[dict[str, Any]]) -> None:
    """Leave with the exit code of an interruption if the last run was stopped."""
    if outcomes and stopped(outcomes[-1]):
        raise typer.Exit(INTERRUPTED)


def method_settings(text: str) -> dict[str, Any]:
    """Return the keys of the run config that a method means: +secure makes the sum secure."""
    if text.endswith(SECURE):
        return {"method": text.removesuffix(SECURE), "secure_sum": True}
    return {"method": text}


def method_list(text: str) -> list[str]:
    """Return the methods of a list with commas."""
    return list(dict.fromkeys(part.strip() for part in text.split(",")))


def seed_list(text: str) -> list[int]:
    """Return the seeds of a text like 1,2 or 1-5."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ConfigError(f"seeds is {text!r}, but must be like 1,2 or 1-5.")
        seeds += range(int(first), int(last or first) + 1)
    if not seeds:
        raise ConfigError(f"seeds is {text!r}, but must name at least one.")
    return list(dict.fromkeys(seeds))


def step_list(option: str, text: str) -> list[float]:
    """Return the step sizes of a text like 0.01,0.1, ascending."""
    try:
        steps = sorted({float(part) for part in text.split(",")})
    except ValueError:
        steps = []
    if not steps or not all(0 < step < math.inf for step in steps):
        raise ConfigError(f"{option} is {text!r}, but must be positive numbers, as in 0.01,0.1.")
    return steps


def distinct(configs: Iterable[RunConfig]) -> list[RunConfig]:
    """Return each run once, also if two names mean the same, as fedau and fedau:50 do."""
    return list({config.run_dir: config for config in configs}.values())


def run_name(config: RunConfig) -> str:
    """Return the name of a run's directory among runs that differ in method and seed."""
    return f"{config.algorithm.slug}{SECURE if config.secure_sum else ''}-seed{config.seed}"
