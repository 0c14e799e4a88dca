"""The runs below a directory, and which of them are seeds of the same setting."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from simulations.config import ConfigError
from simulations.methods import Look
from simulations.report.setting import Columns, Setting, display_name, display_value, varying
from simulations.runs.directory import RunDirectory
from simulations.runs.summary import Summary
from simulations.tasks import Task

Key = TypeVar("Key", bound=Hashable)

LONGEST_NAME = 120
"""Bytes of a panel's name; file systems allow 255, and names of plots have more in them."""

_STEPS = ("lr", "server_lr")


@dataclass(frozen=True, eq=False)
class Run:
    """A run with at least one report."""

    directory: RunDirectory
    summary: Summary
    metrics: list[dict[str, Any]]

    @classmethod
    def of(cls, path: Path) -> Run:
        """Read the run in `path`."""
        directory = RunDirectory(path)
        return cls(directory, Summary.of(path), directory.metrics())

    @cached_property
    def setting(self) -> Setting:
        """What was run, apart from the seed."""
        return Setting.of(self.summary.config)

    @property
    def seed(self) -> int:
        """The seed."""
        return self.summary.config.seed

    @property
    def look(self) -> Look | None:
        """How the method looks in plots, if it has a look of its own."""
        return self.summary.config.algorithm.look

    @property
    def diverged(self) -> bool:
        """Whether the loss became no number."""
        return self.summary.status == "diverged"

    @property
    def reached(self) -> int | None:
        """The round of the last report, if the run has not ended yet."""
        last = int(self.metrics[-1]["round"])
        return None if self.diverged or last >= self.setting.rounds else last

    @cached_property
    def participation(self) -> dict[str, NDArray[Any]] | None:
        """What is in participation.npz."""
        return _arrays(self.directory.participation_file)

    @cached_property
    def clients(self) -> dict[str, NDArray[Any]] | None:
        """What is in clients.npz, once the run has finished."""
        return _arrays(self.directory.clients_file)

    @cached_property
    def class_participation(self) -> NDArray[np.float64] | None:
        """The mean probability with which a sample of each class is there in a round."""
        if self.participation is None or not self.setting.task.classes:
            return None
        keys = ("probability", "class_shares", "sizes")
        return class_presence(*(self.participation[key] for key in keys))


def class_presence(
    p: NDArray[np.float64], class_shares: NDArray[np.float64], sizes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the mean probability with which a sample of each class is there in a round."""
    counts = class_shares * sizes[:, None]
    return np.asarray(p @ counts / np.maximum(counts.sum(axis=0), 1), np.float64)


def _arrays(path: Path) -> dict[str, NDArray[Any]] | None:
    if not path.exists():
        return None
    with np.load(path) as file:
        return {key: file[key] for key in file.files}


@dataclass(frozen=True, eq=False)
class Panel:
    """Runs that are compared with each other: they share everything but method and step sizes.

    Parameters
    ----------
    title : str
        What they share, as far as other panels differ from it.
    name : str
        The title as part of a file's name.
    lines : dict[str, list[Run]]
        The seeds by method.
    looks : Mapping[str, Look | None]
        How the methods look in plots, where a line is a method.
    """

    title: str
    name: str
    lines: dict[str, list[Run]]
    looks: Mapping[str, Look | None] = field(default_factory=dict)

    @property
    def task(self) -> Task:
        """The task that all runs share."""
        return next(iter(self.lines.values()))[0].setting.task


def run_paths(directory: Path) -> Iterator[Path]:
    """Yield the directories of runs at any depth below `directory`, in order."""
    if not directory.is_dir():
        raise ConfigError(f"DIR is {str(directory)!r}, but must be an existing directory.")
    for place, folders, files in os.walk(directory):
        folders.sort()
        if "config.toml" in files:
            # What is below belongs to the run; the states of its clients can be many files.
            folders.clear()
            yield Path(place)


def find_runs(directory: Path) -> list[Run]:
    """Return all runs with results at any depth below `directory`.

    A run that was repeated counts once: it is deterministic, and no further seed.
    """
    return read_runs(run_paths(directory), where=directory)


def read_runs(paths: Iterable[Path], *, where: Path) -> list[Run]:
    """Return the runs with results among `paths`; it is an error if there are none."""
    found: dict[Hashable, Run] = {}
    for path in paths:
        if RunDirectory(path).metrics():
            run = Run.of(path)
            key = (run.setting, run.seed)
            if key not in found or (found[key].reached or 1e99) < (run.reached or 1e99):
                found[key] = run
    if not found:
        raise ConfigError(f"DIR is {str(where)!r}, but must hold at least one run with results.")
    return sorted(found.values(), key=lambda run: (run.setting.order(), run.seed))


def grouped(runs: Iterable[Run], key: Callable[[Run], Key]) -> dict[Key, list[Run]]:
    """Return the runs by `key`, in the order in which it first occurs."""
    groups: dict[Key, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def panels(runs: Iterable[Run]) -> list[Panel]:
    """Return the comparisons that the runs make."""
    runs = list(runs)
    columns = Columns.of(run.setting for run in runs)
    found = []
    for common, members in grouped(runs, lambda run: run.setting.whatever_the_method()).items():
        parts = columns.texts(common, _STEPS)
        head = [display_value(common, "task"), common.pattern.name]
        keys = columns.shown(common, _STEPS)
        slug = "-".join(
            [common.task.name, common.pattern.name]
            + [f"{key.replace('_', '-')}-{display_value(common, key)}" for key in keys]
        )
        steps = [key for key in varying(run.setting for run in members) if key in columns.keys]
        lines = grouped(members, lambda run: _line(run.setting, steps))  # noqa: B023
        looks = {} if steps else {label: some[0].look for label, some in lines.items()}
        found.append(Panel(", ".join(head + parts), file_name(slug), lines, looks))
    return found


def _line(setting: Setting, steps: list[str]) -> str:
    parts = [f"{display_name(key)}={display_value(setting, key)}" for key in steps]
    return ", ".join([display_value(setting, "method"), *parts])


def file_name(text: str) -> str:
    """Return a text as a part of a file's name; of a long one its start and a hash of it."""
    safe = re.sub(r"[/\\\0]", "-", text)
    if len(safe.encode()) <= LONGEST_NAME:
        return safe
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return safe.encode()[: LONGEST_NAME - len(digest) - 1].decode(errors="ignore") + f"-{digest}"
