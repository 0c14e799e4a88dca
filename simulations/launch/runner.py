"""Runs from the command line: checked first, then run one after the other, with progress."""

import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from simulations.config import ConfigError, RunConfig
from simulations.launch.signals import orderly_end
from simulations.launch.simulator import Follow, Simulator
from simulations.report.trackers import (
    EventFiles,
    open_mlflow,
    open_wandb,
    require_tracker,
    tracked,
)
from simulations.runs.directory import RunDirectory
from simulations.runs.experiment import open_experiment

MOST_PER_GPU = 5
"""Workers that share a GPU unless somebody wants more: clients are launch-bound, not for ever."""


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
    wandb: str = _option(
        "", "Project of Weights & Biases to log to; WANDB_MODE=offline keeps it here."
    )
    mlflow: str = _option("", "Store of MLflow to log to, as in sqlite:////home/me/mlflow.db.")

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise ConfigError(f"workers is {self.workers}, but must be 0 or more.")
        for tracker in ("tensorboard", "wandb", "mlflow"):
            if getattr(self, tracker):
                require_tracker(tracker)

    @contextmanager
    def trackers(self, config: RunConfig) -> Iterator[list[Follow]]:
        """Give what follows a run into the trackers that were chosen."""
        with ExitStack() as stack:
            found: list[Follow] = []
            if self.tensorboard:
                found.append(stack.enter_context(EventFiles(Path(config.run_dir))).update)
            for value, opened in ((self.wandb, open_wandb), (self.mlflow, open_mlflow)):
                if value:
                    found.append(stack.enter_context(tracked(config, partial(opened, value))))
            yield found

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
        share = max(count / self.worker_count, 1 / MOST_PER_GPU)
        return self.gpus_per_client if self.gpus_per_client >= 0 else share

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
    if config.kernel == "native":
        # torch takes seconds, which a run that leaves the choice to us need not wait for.
        from simulations.nodes.resident import used_kernel  # noqa: PLC0415

        used_kernel(config.task, device=config.device, kernel=config.kernel)
    notice = open_experiment(config).split.notice()
    run = RunDirectory(Path(config.run_dir))
    check_writable("run-dir", run.path)
    run.check(config)
    if config.resume and (done := run.outcome()["round"]) > config.rounds:
        raise ConfigError(
            f"rounds is {config.rounds}, but must be at least {done}, which {run.path} has done "
            "already."
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
                follow = [stack.enter_context(_display(config, console, reports=reports))]
                follow += stack.enter_context(resources.trackers(config))
                outcome = simulator.run(config, resources.nodes(config), *follow)
            console.print(f"{Path(config.run_dir).name}: {outcome['sentence']}", highlight=False)
            outcomes.append(outcome)
            if stopped(outcome):
                break
    return outcomes


@contextmanager
def _display(config: RunConfig, console: Console, *, reports: bool) -> Iterator[Follow]:
    """Show a bar on a terminal, and a line per report if wanted."""
    own = RunDirectory(Path(config.run_dir))
    shown = len(own.metrics()) if config.resume else 0
    pace = TextColumn("{task.fields[pace]}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), pace)
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bars:
        bar = bars.add_task(own.path.name, total=config.rounds, pace="starting …")

        def update(run: RunDirectory) -> None:
            nonlocal shown
            progress = run.progress()
            if progress and (speed := progress.get("rounds_per_second")):
                minutes, seconds = divmod(int(progress["seconds_left"]), 60)
                text = f"{speed:.2f} rounds/s, {minutes}:{seconds:02d} left"
                bars.update(bar, completed=progress["round"], pace=text)
            for entry in run.metrics()[shown:] if reports else ():
                console.print(report_line(entry, config.rounds), highlight=False)
                shown += 1

        try:
            yield update
        finally:
            update(own)


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
