"""A training in the trackers that people use: TensorBoard, Weights & Biases, MLflow.

A writer is the tracker's side, for anybody who has numbers by round; a callback puts a loop's
numbers into one. Each needs the extra of its name, and nothing is imported before it is used.
"""

import csv
import math
import os
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from ..loop import Callback, RoundLoop
from ..report import RoundReport

_PARAMETERS, _LONGEST = 100, 500
"""What MLflow takes at once, and how long a value may be."""


class Writer(Protocol):
    """What a tracker does with a training."""

    def add(self, step: int, values: Mapping[str, Any]) -> None:
        """Write the finite numbers among `values`, which belong to a round."""

    def close(self, status: str) -> None:
        """End; `status` is the loop's."""


class FileWriter(Writer, Protocol):
    """One that keeps tables and plots beside the numbers."""

    def file(self, path: Path) -> None:
        """Add a file."""


def require(module: str, name: str) -> None:
    """Raise ModuleNotFoundError with what to install where a tracker is missing."""
    if find_spec(module) is None:
        install = f"run `pip install 'fedau-flwr[{module}]'`"
        raise ModuleNotFoundError(f"The callback needs {name}: {install}.")


def finite(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers among `values`."""
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


class ScalarWriter:
    """Writes numbers into an event file below `directory`; the package tensorboard is needed.

    TensorBoard forgets steps from `first` on that are in older files.
    """

    def __init__(self, directory: str | Path, *, first: int = 0) -> None:
        # Takes a third of a second, and most loops have no use for it.
        events = import_module("tensorboard.compat.proto.event_pb2")
        writer = import_module("tensorboard.summary.writer.event_file_writer")
        self._event = events.Event
        self._summary = import_module("tensorboard.compat.proto.summary_pb2").Summary
        self._file = writer.EventFileWriter(str(directory))
        started = events.SessionLog(status=events.SessionLog.START)
        self._file.add_event(self._event(wall_time=time.time(), step=first, session_log=started))

    def add(self, step: int, values: Mapping[str, Any]) -> None:
        """Write the finite numbers among `values`, and make them visible."""
        pair = self._summary.Value
        pairs = [pair(tag=tag, simple_value=value) for tag, value in finite(values).items()]
        event = self._event(wall_time=time.time(), step=step, summary=self._summary(value=pairs))
        self._file.add_event(event)
        self._file.flush()

    def close(self, status: str = "") -> None:
        """End the file."""
        self._file.close()


class WandbWriter:
    """Writes into a run of Weights & Biases, with the options of ``wandb.init``."""

    def __init__(self, config: Mapping[str, Any], **options: Any) -> None:
        self._wandb = import_module("wandb")
        settings = self._wandb.Settings(silent=True)
        self.run = self._wandb.init(config=dict(config), settings=settings, **options)

    def add(self, step: int, values: Mapping[str, Any]) -> None:
        """Write the finite numbers among `values`; a step is written once."""
        self.run.log(finite(values), step=step)

    def file(self, path: Path) -> None:
        """Add a table (.csv) or a plot (.png); anything else is left out."""
        if path.suffix == ".png":
            self.run.log({path.stem: self._wandb.Image(str(path))})
        elif path.suffix == ".csv":
            header, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
            self.run.log({path.stem: self._wandb.Table(columns=header, data=rows)})

    def close(self, status: str) -> None:
        """End the run."""
        self.run.summary["status"] = status
        self.run.finish(exit_code=1 if status == "failed" else 0)


class MLflowWriter:
    """Writes into a new run of an MLflow experiment, which is made if there is none.

    Files of a new experiment go to `artifacts`, by default where MLflow puts them.
    """

    def __init__(
        self,
        uri: str,
        experiment: str,
        name: str,
        config: Mapping[str, Any],
        *,
        artifacts: str | None = None,
    ) -> None:
        # Nothing of a training leaves for anybody but the store that was named.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        entities = import_module("mlflow.entities")
        self._metric, parameter = entities.Metric, entities.Param
        self.client = import_module("mlflow.tracking").MlflowClient(uri)
        if (found := self.client.get_experiment_by_name(experiment)) is not None:
            number = found.experiment_id
        else:
            number = self.client.create_experiment(experiment, artifact_location=artifacts)
        self.run = self.client.create_run(number, run_name=name).info.run_id
        pairs = [parameter(key, str(value)[:_LONGEST]) for key, value in config.items()]
        for first in range(0, len(pairs), _PARAMETERS):
            self.client.log_batch(self.run, params=pairs[first : first + _PARAMETERS])

    def add(self, step: int, values: Mapping[str, Any]) -> None:
        """Write the finite numbers among `values`."""
        now = int(1000 * time.time())
        metrics = [self._metric(key, value, now, step) for key, value in finite(values).items()]
        self.client.log_batch(self.run, metrics=metrics)

    def file(self, path: Path) -> None:
        """Add a file: a table or a plot."""
        self.client.log_artifact(self.run, str(path))

    def close(self, status: str) -> None:
        """End the run."""
        ended = {"failed": "FAILED", "stopped": "KILLED"}.get(status, "FINISHED")
        self.client.set_tag(self.run, "status", status)
        self.client.set_terminated(self.run, ended)


class _Tracking(Callback):
    """Puts every round's participation and metrics into a writer, opened when the loop begins."""

    def __init__(self, module: str, name: str, open_writer: Callable[[RoundLoop], Writer]) -> None:
        require(module, name)
        self._open = open_writer
        self._writer: Writer | None = None

    def on_start(self, loop: RoundLoop) -> None:
        """Open the tracker."""
        self._writer = self._open(loop)

    def round_done(self, loop: RoundLoop, report: RoundReport) -> None:
        """Write what a round came to."""
        if self._writer is not None:
            counts = {name: getattr(report, name) for name in ("counted", "rejected", "absent")}
            named = {f"participation/{name}": value for name, value in counts.items()}
            self._writer.add(loop.round, named | loop.metrics)

    def on_end(self, loop: RoundLoop) -> None:
        """Close the tracker."""
        if self._writer is not None:
            self._writer.close(loop.status)


class TensorBoard(_Tracking):
    """Shows the rounds' participation and metrics in ``tensorboard --logdir``, this directory.

    Of a resumed run only the rounds in the model stay visible.
    """

    def __init__(self, directory: str | Path) -> None:
        def open_writer(loop: RoundLoop) -> Writer:
            return ScalarWriter(directory, first=loop.round + 1)

        super().__init__("tensorboard", "TensorBoard", open_writer)


class WeightsAndBiases(_Tracking):
    """Shows the rounds' participation and metrics in Weights & Biases.

    Parameters
    ----------
    project : str
        Its name there. ``WANDB_MODE=offline`` keeps all on this machine, for ``wandb sync``.
    config : Mapping[str, Any] | None (default: None)
        The settings of the training.
    **options
        Those of ``wandb.init``, such as ``name``, ``dir``, ``id`` and ``resume``.
    """

    def __init__(
        self, project: str, *, config: Mapping[str, Any] | None = None, **options: Any
    ) -> None:
        def open_writer(_: RoundLoop) -> Writer:
            return WandbWriter(config or {}, project=project, **options)

        super().__init__("wandb", "Weights & Biases", open_writer)


class MLflow(_Tracking):
    """Shows the rounds' participation and metrics in MLflow.

    Parameters
    ----------
    uri : str
        The store, as in ``sqlite:////home/me/mlflow.db`` or ``http://127.0.0.1:5000``.
    experiment, name : str
        The experiment and the run.
    config : Mapping[str, Any] | None (default: None)
        The settings of the training.
    """

    def __init__(
        self,
        uri: str,
        *,
        experiment: str = "fedau",
        name: str = "training",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        def open_writer(_: RoundLoop) -> Writer:
            return MLflowWriter(uri, experiment, name, config or {})

        super().__init__("mlflow", "MLflow", open_writer)
