"""The runs below a directory, and which of them are seeds of the same setting."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from simulations.config import ConfigError
from simulations.report.setting import Setting, display_name, display_value, varying
from simulations.runs.directory import RunDirectory
from simulations.runs.summary import Summary

Key = TypeVar("Key", bound=Hashable)


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
        if self.participation is None:
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
    """

    title: str
    name: str
    lines: dict[str, list[Run]]


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
    shown = varying(run.setting for run in runs)
    found = []
    for common, members in grouped(runs, _common).items():
        keys = [key for key in shown if key not in ("lr", "server_lr")]
        parts = [f"{display_name(key)} = {display_value(common, key)}" for key in keys]
        head = [display_value(common, "dataset"), common.pattern]
        slug = "-".join(
            [common.dataset, common.pattern]
            + [f"{key.replace('_', '-')}-{display_value(common, key)}" for key in keys]
        )
        steps = [key for key in varying(run.setting for run in members) if key in shown]
        lines = grouped(members, lambda run: _line(run.setting, steps))  # noqa: B023
        found.append(Panel(", ".join(head + parts), slug.replace("/", "-"), lines))
    return found


def _common(run: Run) -> Setting:
    return replace(run.setting, method="", lr=0.0, server_lr=0.0)


def _line(setting: Setting, steps: list[str]) -> str:
    parts = [f"{display_name(key)}={display_value(setting, key)}" for key in steps]
    return ", ".join([setting.method, *parts])
