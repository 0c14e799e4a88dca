"""A run's reports in trackers, as they come: TensorBoard, Weights & Biases, MLflow."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self, TypeVar

from fedau_flwr.server.callbacks.trackers import FileWriter, MLflowWriter, ScalarWriter, WandbWriter
from simulations.config import ConfigError, RunConfig
from simulations.report.results import tables, write
from simulations.report.runs import Run
from simulations.report.setting import shown_values
from simulations.runs.directory import RunDirectory
from simulations.runs.summary import SHOWN_CLASSES
from simulations.tasks.arrays import PARTS

_TAGS = {f"{part}_{kind}": f"{kind}/{part}" for kind in ("loss", "accuracy") for part in PARTS}
_TAGS |= {key: f"participation/{key}" for key in ("participants", "counted")}

_NAMES = {"tensorboard": "TensorBoard", "wandb": "Weights & Biases", "mlflow": "MLflow"}

EXPERIMENT = "fedau"
"""Of MLflow, which has all runs of the command line."""

Follow = Callable[[RunDirectory], None]
Made = TypeVar("Made")


def require_tracker(module: str) -> None:
    """Raise `ConfigError` where a tracker is not installed; its extra has the module's name."""
    if find_spec(module) is None:
        raise ConfigError(
            f"{module} is given, but must not be unless {_NAMES[module]} is installed: run "
            f"`pip install -e '.[{module}]'` in the clone."
        )


class EventFiles:
    """Follows a run and writes its reports for TensorBoard as they come; a context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: list[int] = []
        self._writer: ScalarWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.update(RunDirectory(self._path))
        self._close()

    def update(self, run: RunDirectory) -> None:
        """Write the reports that are new, all anew if a resumed run has dropped some."""
        metrics = run.metrics()
        rounds = [entry["round"] for entry in metrics]
        if rounds[: len(self._written)] != self._written:
            self._close()
        if len(rounds) == len(self._written):
            return
        if self._writer is None:
            for old in self._path.glob("events.out.tfevents.*"):
                old.unlink()
            self._writer = ScalarWriter(self._path)
        classes = run.config().task.classes
        for entry in metrics[len(self._written) :]:
            self._writer.add(entry["round"], scalars(entry, classes))
        self._written = rounds

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer, self._written = None, []


@contextmanager
def tracked(config: RunConfig, open_writer: Callable[[RunConfig], FileWriter]) -> Iterator[Follow]:
    """Follow a run: its reports as they come, each round once, its tables and plots at the end."""
    writer, run = open_writer(config), RunDirectory(Path(config.run_dir))
    last, classes, status = 0, config.task.classes, "failed"

    def update(run: RunDirectory) -> None:
        nonlocal last
        for entry in run.metrics():
            if entry["round"] > last:  # what a resumed run reports again is the same
                last = entry["round"]
                writer.add(last, scalars(entry, classes))

    try:
        yield update
        update(run)
        status = str(run.outcome()["status"])
        if last:
            _add_files(writer, Run(run.path))
    finally:
        writer.close(status)


def _add_files(writer: FileWriter, run: Run) -> None:
    from simulations.report.plots import draw_runs  # noqa: PLC0415 -- matplotlib takes a second

    with tempfile.TemporaryDirectory(prefix="fedau-files-") as name:
        scratch = Path(name)
        for file in [*write(tables([run]), scratch), *draw_runs([run], scratch, formats=("png",))]:
            writer.file(file)


def open_wandb(project: str, config: RunConfig) -> WandbWriter:
    """Begin a run in a project of Weights & Biases, with its local files beside the run's."""
    path = Path(config.run_dir)
    path.mkdir(parents=True, exist_ok=True)
    options = {"project": project, "name": path.name, "group": path.parent.name, "dir": str(path)}
    return _opened("wandb", project, lambda: WandbWriter(shown_values(config), **options))


def open_mlflow(uri: str, config: RunConfig) -> MLflowWriter:
    """Begin a run in an MLflow store; files of a local one go beside the runs."""
    path, local = Path(config.run_dir), uri.startswith("sqlite:")
    files = (path.parent / "mlflow-files").as_uri() if local else None
    arguments = (uri, EXPERIMENT, path.name, shown_values(config))
    return _opened("mlflow", uri, lambda: MLflowWriter(*arguments, artifacts=files))


def _opened(key: str, value: str, make: Callable[[], Made]) -> Made:
    try:
        return make()
    except Exception as error:  # of whatever kind the tracker has
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ConfigError(
            f"{key} is {value!r}, but must be what {_NAMES[key]} can write to ({reason})."
        ) from None


def scalars(entry: Mapping[str, Any], classes: tuple[str, ...]) -> dict[str, Any]:
    """Return a report's numbers by the names that trackers group them by."""
    values = {tag: entry.get(key) for key, tag in _TAGS.items()}
    if len(classes) <= SHOWN_CLASSES:
        by_class = zip(classes, entry.get("test_class_accuracy", ()), strict=True)
        values |= {f"test accuracy by class/{name}": value for name, value in by_class}
    return values
