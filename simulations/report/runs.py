"""The runs below a directory, and which of them are seeds of the same setting."""

import hashlib
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from simulations.config import ConfigError
from simulations.methods import Look
from simulations.report.setting import Columns, Setting, described, display_value, varying
from simulations.runs.directory import RunDirectory
from simulations.runs.summary import Summary
from simulations.tasks import Task

Key = TypeVar("Key", bound=Hashable)
Part = TypeVar("Part")
Item = TypeVar("Item")

LONGEST_NAME = 120
"""Bytes of a panel's name; file systems allow 255, and names of plots have more in them."""

_STEPS = ("lr", "server_lr")


class Classes(NamedTuple):
    """The classes of a run, those first whose owners come most often."""

    seed: int
    names: list[str]
    participation: NDArray[np.float64]
    accuracy: NDArray[np.float64]


class Run:
    """A run with at least one report; `reached` is the round of the last one until it has ended.

    `participation` and `clients`, which there are of finished runs, are what those files hold.
    """

    def __init__(self, path: Path) -> None:
        self.directory = RunDirectory(path)
        self.summary = Summary.of(path)
        self.metrics = self.directory.metrics()
        self.setting = Setting.of(self.summary.config)
        self.seed = self.summary.config.seed
        self.diverged = self.summary.status == "diverged"
        last = int(self.metrics[-1]["round"])
        self.reached = None if self.diverged or last >= self.setting.rounds else last
        self.participation = _arrays(self.directory.participation_file)
        self.clients = _arrays(self.directory.clients_file)

    @cached_property
    def classes(self) -> Classes | None:
        """How often samples of each class are there, and how accurate the model is on them."""
        names = self.setting.task.classes
        if self.participation is None or not names:
            return None
        keys = ("probability", "class_shares", "sizes")
        present = class_presence(*(self.participation[key] for key in keys))
        order = np.argsort(-present, kind="stable")
        accuracy = self.summary.final["test_class_accuracy"][order]
        return Classes(self.seed, [names[number] for number in order], present[order], accuracy)


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

    The title says what they share as far as other panels differ from it, and `name` is the title as
    part of a file's name. `lines` are the seeds by method; where a line is a method, it has a look.
    """

    title: str
    name: str
    task: Task
    lines: dict[str, list[Run]]
    looks: Mapping[str, Look | None]

    def having(self, part: Callable[[Run], Part | None]) -> dict[str, list[Part]]:
        """Return this part of the runs that have it, by line; lines without any are left out."""
        found = {
            label: [value for run in runs if (value := part(run)) is not None]
            for label, runs in self.lines.items()
        }
        return {label: values for label, values in found.items() if values}


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
    """Return all runs with results below `directory`; it is an error if there are none."""
    if runs := read_runs(run_paths(directory)):
        return runs
    raise ConfigError(f"DIR is {str(directory)!r}, but must hold at least one run with results.")


def read_runs(paths: Iterable[Path]) -> list[Run]:
    """Return the runs with results among `paths`.

    A run that was repeated counts once: it is deterministic, and no further seed.
    """
    found: dict[Hashable, Run] = {}
    for path in paths:
        if RunDirectory(path).metrics():
            run = Run(path)
            key = (run.setting, run.seed)
            if key not in found or (found[key].reached or 1e99) < (run.reached or 1e99):
                found[key] = run
    return sorted(found.values(), key=lambda run: (run.setting.order(), run.seed))


def grouped(runs: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Return the runs by `key`, in the order in which it first occurs."""
    groups: dict[Key, list[Item]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def panels(runs: Iterable[Run]) -> list[Panel]:
    """Return the comparisons that the runs make."""
    return compared([(run.setting, run) for run in runs])


def compared(runs: Sequence[tuple[Setting, Any]]) -> list[Panel]:
    """Return the comparisons that runs make, given each with its setting."""
    columns = Columns.of(setting for setting, _ in runs)
    found = []
    for common, members in grouped(runs, lambda pair: pair[0].whatever_the_method()).items():
        keys = columns.shown(common, _STEPS)
        title = ", ".join([common.task.title, common.pattern.name, *described(common, keys)])
        parts = [f"{key.replace('_', '-')}-{display_value(common, key)}" for key in keys]
        slug = "-".join([common.task.name, common.pattern.name, *parts])
        steps = [key for key in varying(setting for setting, _ in members) if key in columns.keys]
        lines = grouped(members, lambda pair: _line(pair[0], steps))  # noqa: B023
        methods = {label: some[0][0].method for label, some in lines.items()}
        looks = {label: method.look if method else None for label, method in methods.items()}
        runs_of = {label: [run for _, run in some] for label, some in lines.items()}
        found.append(Panel(title, file_name(slug), common.task, runs_of, {} if steps else looks))
    return found


def _line(setting: Setting, steps: list[str]) -> str:
    return ", ".join([display_value(setting, "method"), *described(setting, steps, "=")])


def file_name(text: str) -> str:
    """Return a text as a part of a file's name; of a long one its start and a hash of it."""
    safe = re.sub(r"[/\\\0]", "-", text)
    if len(safe.encode()) <= LONGEST_NAME:
        return safe
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return safe.encode()[: LONGEST_NAME - len(digest) - 1].decode(errors="ignore") + f"-{digest}"
