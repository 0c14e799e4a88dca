"""Runs from the command line: checked first, then run one after the other, with progress."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from simulations.config import ConfigError, RunConfig
from simulations.launch.signals import orderly_end
from simulations.launch.simulator import Follow, Simulator
from simulations.report.event_files import EventFiles, require_tensorboard
from simulations.runs.directory import RunDirectory
from simulations.runs.experiment import open_experiment

_BAR = TaskID(0)  # the only one of a display


def _option(default: Any, explanation: str) -> Any:
    return field(default=default, metadata={"help": explanation})


@dataclass(frozen=True)
class Resources:
    """What the runs of a command may use; `metadata["help"]` of a field explains its option."""

    workers: int = _option(0, "Worker processes; 0 is one per core.")
    gpus_per_client: float = _option(
        -1.0, "GPUs per worker, which may be a fraction; below 0, all there are, in equal shares."
    )
    port: int = _option(0, "Port of the SuperLink; 0 is any free one.")
    tensorboard: bool = _option(False, "Write TensorBoard event files into the runs' directories.")

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise ConfigError(f"workers is {self.workers}, but must be 0 or more.")
        if self.tensorboard:
            require_tensorboard()

    @property
    def worker_count(self) -> int:
        """Number of worker processes on this machine."""
        return self.workers or os.cpu_count() or 1

    def gpus(self, device: str) -> float:
        """Return the GPUs per worker for runs on `device`."""
        wanted = self.gpus_per_client > 0 or device.startswith("cuda")
        if device == "cpu" or not (wanted or shutil.which("nvidia-smi")):
            return 0.0
        import torch  # noqa: PLC0415 -- takes seconds, which a machine without GPUs need not wait

        count = torch.cuda.device_count()
        if wanted and count == 0:
            raise ConfigError(
                f"gpus-per-client is {self.gpus_per_client:g} and device is {device!r}, but must "
                "be 0 and cpu: torch sees no GPU on this machine."
            )
        number = device.removeprefix("cuda:")
        if number.isdecimal() and int(number) >= count:
            raise ConfigError(f"device is {device!r}, but must be at most 'cuda:{count - 1}'.")
        if self.gpus_per_client > count:
            raise ConfigError(
                f"gpus-per-client is {self.gpus_per_client:g}, but must be at most {count}, the "
                "number of GPUs."
            )
        return self.gpus_per_client if self.gpus_per_client >= 0 else count / self.worker_count

    def nodes(self, config: RunConfig) -> int:
        """Return how many SuperNodes a run has."""
        if config.clients_per_node == 0:
            return min(self.worker_count, config.clients)
        return math.ceil(config.clients / config.clients_per_node)

    def simulator(self, device: str) -> Simulator:
        """Return what runs experiments on `device`, yet to be started."""
        # A cluster that is there already has its own number of cores.
        cores = 0 if os.environ.get("RAY_ADDRESS") else self.workers
        return Simulator(port=self.port, gpus=self.gpus(device), workers=cores)


def check(config: RunConfig) -> str | None:
    """Find what is wrong with a run before anything starts; errors are one sentence.

    Returns what is not wrong but worth knowing.
    """
    notice = open_experiment(config).split.notice()
    check_writable("run-dir", Path(config.run_dir))
    if config.resume:
        run = RunDirectory(Path(config.run_dir))
        config.same_training(run.config())
        if (done := run.outcome()["round"]) > config.rounds:
            raise ConfigError(
                f"rounds is {config.rounds}, but must be at least {done}, which {run.path} has "
                "done already."
            )
    elif (Path(config.run_dir) / "config.toml").exists():
        raise ConfigError(
            f"run-dir is {config.run_dir!r}, but must not hold a run yet: resume that one, or "
            "choose another directory."
        )
    return notice


def check_writable(key: str, directory: Path) -> None:
    """Refuse a directory that cannot be made or written to; nothing is made yet."""
    there = next(path for path in (directory, *directory.parents) if path.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return
    reason = "is not writable" if there.is_dir() else "is no directory"
    raise ConfigError(
        f"{key} is {str(directory)!r}, but must be a directory that can be written to "
        f"({there} {reason})."
    )


def stopped(outcome: Mapping[str, Any]) -> bool:
    """Return whether somebody wanted a run to stop, in time or too late for it."""
    return outcome["status"] == "stopped" or bool(outcome.get("interrupted"))


def run_all(
    configs: Iterable[RunConfig],
    resources: Resources,
    console: Console,
    *,
    where: Path,
    reports: bool = False,
) -> list[dict[str, Any]]:
    """Run one after the other on one SuperLink and return the outcomes, up to one that stopped."""
    configs = list(configs)
    notices: dict[str | None, None] = {}
    for config in configs:
        config.check_nodes(resources.nodes(config))
        notices[check(config)] = None
    simulator = resources.simulator(configs[0].device)
    for notice in (*filter(None, notices), f"The results go to {where}."):
        console.print(notice, highlight=False, soft_wrap=True)
    outcomes = []
    with orderly_end(), simulator:
        for config in configs:
            with ExitStack() as stack:
                updates: list[Follow] = [
                    stack.enter_context(_Display(config, console, reports=reports)).update
                ]
                if resources.tensorboard:
                    updates.append(stack.enter_context(EventFiles(Path(config.run_dir))).update)
                outcome = simulator.run(config, resources.nodes(config), _each(updates))
            console.print(f"{Path(config.run_dir).name}: {outcome['sentence']}", highlight=False)
            outcomes.append(outcome)
            if stopped(outcome):
                break
    return outcomes


def _each(updates: list[Follow]) -> Follow:
    def update(run: RunDirectory) -> None:
        for one in updates:
            one(run)

    return update


class _Display:
    """A bar on a terminal, and a line per report if wanted."""

    def __init__(self, config: RunConfig, console: Console, *, reports: bool) -> None:
        self._config, self._console, self._reports = config, console, reports
        self._run = RunDirectory(Path(config.run_dir))
        self._shown = len(self._run.metrics()) if config.resume else 0
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[throughput]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> _Display:
        self._progress.start()
        self._progress.add_task(
            self._run.path.name, total=self._config.rounds, throughput="starting …"
        )
        return self

    def __exit__(self, *error: object) -> None:
        self.update(self._run)
        self._progress.stop()

    def update(self, run: RunDirectory) -> None:
        """Show where a run is."""
        progress = run.progress()
        if progress and progress.get("rounds_per_second"):
            minutes, seconds = divmod(int(progress["seconds_left"]), 60)
            pace = f"{progress['rounds_per_second']:.2f} rounds/s, {minutes}:{seconds:02d} left"
            self._progress.update(_BAR, completed=progress["round"], throughput=pace)
        for entry in run.metrics()[self._shown :] if self._reports else ():
            self._console.print(report_line(entry, self._config.rounds), highlight=False)
            self._shown += 1


def report_line(entry: dict[str, Any], rounds: int) -> str:
    """Return a report as a line of text."""

    def number(key: str, scale: float = 1.0, digits: int = 3) -> str:
        value = entry[key]
        return "no number" if value is None else f"{scale * value:.{digits}f}"

    return (
        f"round {entry['round']}/{rounds}: "
        f"train {number('train_accuracy', 100, 1)} % (loss {number('train_loss')}), "
        f"test {number('test_accuracy', 100, 1)} % (loss {number('test_loss')}), "
        f"{entry['seconds']:.0f} s"
    )
