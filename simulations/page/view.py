"""One run as the page shows it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedau_flwr import FedAUWeighting
from simulations.config import RunConfig
from simulations.page.reading import Reader, number_or_none
from simulations.report.runs import class_presence
from simulations.report.setting import Setting, shown_values
from simulations.runs.directory import RunDirectory
from simulations.tasks.arrays import PARTS

QUANTILES = np.linspace(0.0, 1.0, 41)
"""Of the distribution over clients."""

_PROTECTION = ("dropouts_", "epsilon")


class RunView:
    """A run below `root`, read anew by `refresh` when one of its files has changed."""

    def __init__(self, path: Path, root: Path) -> None:
        self.run = RunDirectory(path)
        self.id = path.relative_to(root).as_posix()
        self.version = 0
        self.setting: Setting | None = None
        self.config: RunConfig | None = None
        self._root = root
        self._seen: tuple[Any, ...] = ()
        self._arrays: dict[Path, tuple[Any, dict[str, NDArray[Any]]]] = {}
        self._raster: tuple[Any, Any] | None = None
        self.summary: dict[str, Any] = {}

    def refresh(self, version: int) -> bool:
        """Read the run if it has changed, which is then its new version."""
        run = self.run
        files = (run.config_file, run.metrics_file, run.outcome_file, run.progress_file,
                 run.participation_file, run.clients_file, run.nodes_file)  # fmt: skip
        seen = tuple(_stamp(file) for file in files)
        if seen == self._seen:
            return False
        self._seen, self.version = seen, version
        self.reader = Reader(run, self._root)
        if self.config is None:
            self.config = self.reader.config()
            self.setting = Setting.of(self.config) if self.config else None
        self.summary = self._summary()
        return True

    def _summary(self) -> dict[str, Any]:
        run, config, reader = self.run, self.config, self.reader
        entries, outcome = reader.lines(run.metrics_file), reader.text(run.outcome_file)
        progress, status = reader.text(run.progress_file), str(outcome.get("status", "starting"))
        going = status == "running"
        last = max([entry["round"] for entry in entries[-1:]] + [progress.get("round") or 0])
        return {
            "id": self.id,
            "version": self.version,
            "name": run.path.name,
            "status": status,
            "round": last if going else outcome.get("round", last),
            "sentence": str(outcome.get("sentence", "The run has not begun yet.")),
            "speed": number_or_none(progress.get("rounds_per_second")) if going else None,
            "left": number_or_none(progress.get("seconds_left")) if going else None,
            "changed": max((stamp[0] for stamp in self._seen if stamp), default=0) / 1e9,
            "problems": reader.problems,
            **(_settings(config) if config else {}),
            "curves": self._curves(entries),
            "classes": self._classes(entries),
            "spread": self._spread(entries),
        }

    def _curves(self, entries: list[dict[str, Any]]) -> dict[str, list[Any]]:
        metric = self.config.task.metric if self.config else "accuracy"
        keys = [f"{part}_{kind}" for part in PARTS for kind in ("loss", metric)]
        curves: dict[str, list[Any]] = {"round": [entry["round"] for entry in entries]}
        for key in keys:
            values = [number_or_none(entry.get(key)) for entry in entries]
            if any(value is not None for value in values):
                curves[key.replace(metric, "score")] = values
        return curves

    def arrays(self, file: Path) -> dict[str, NDArray[Any]]:
        """Return the arrays of a file, read once as long as it stays the same."""
        stamp = _stamp(file)
        if file not in self._arrays or self._arrays[file][0] != stamp:
            self._arrays[file] = (stamp, self.reader.arrays(file))
        return self._arrays[file][1]

    def cached_raster(self, make: Callable[[Self], Any]) -> Any:
        """Return what `make` makes of participation.npz, made once as long as it stays the same."""
        stamp = _stamp(self.run.participation_file)
        if self._raster is None or self._raster[0] != stamp:
            self._raster = (stamp, make(self))
        return self._raster[1]

    def _classes(self, entries: list[dict[str, Any]]) -> dict[str, Any] | None:
        """Return the classes, those first whose samples are there most often."""
        found = self.arrays(self.run.participation_file)
        names = self.config.task.classes if self.config else ()
        accuracy = _class_accuracy(entries, len(names))
        keys = ("probability", "class_shares", "sizes")
        if accuracy is None or not all(key in found for key in keys):
            return None
        presence = class_presence(*(found[key] for key in keys))
        order = np.argsort(-presence, kind="stable")
        return {
            "names": [names[place] for place in order],
            "presence": presence[order].tolist(),
            "accuracy": [number_or_none(value) for value in accuracy[order].tolist()],
        }

    def client_accuracy(self, entries: list[dict[str, Any]]) -> NDArray[np.float64] | None:
        """Return each client's test accuracy, its classes' as it has them."""
        ended = self.arrays(self.run.clients_file).get("test_accuracy")
        if ended is not None:
            return np.asarray(ended, np.float64)
        shares = self.arrays(self.run.participation_file).get("class_shares")
        accuracy = None if shares is None else _class_accuracy(entries, shares.shape[1])
        return None if shares is None or accuracy is None else shares @ accuracy

    def _spread(self, entries: list[dict[str, Any]]) -> list[float] | None:
        if (values := self.client_accuracy(entries)) is None:
            return None
        values = values[np.isfinite(values)]
        return np.quantile(values, QUANTILES).tolist() if len(values) else None

    def details(self) -> dict[str, Any]:
        """Return what the page shows of a run that was chosen, but for its raster.

        The numbers of its clients are arrays.
        """
        found = self.arrays(self.run.participation_file)
        entries = self.reader.lines(self.run.metrics_file)
        rounds = self.reader.lines(self.run.rounds_file)
        names: list[str] = ["probability", "weight"]
        clients = {key: found[key] for key in names if key in found}
        if (accuracy := self.client_accuracy(entries)) is not None:
            clients["accuracy"] = accuracy
        learned = self.config.algorithm.learned_weighting() if self.config else None
        plain = isinstance(learned, FedAUWeighting) and learned.smoothing is None
        return {
            "id": self.id,
            "version": self.version,
            "clients": clients,
            "cutoff": (getattr(learned, "cutoff", None) or 0) if plain else None,
            "settings": shown_values(self.config) if self.config else {},
            "nodes": self.reader.text(self.run.nodes_file).get("nodes", []),
            "protection": _columns(rounds),
        }


def _settings(config: RunConfig) -> dict[str, Any]:
    task = config.task
    return {
        "method": config.algorithm.label,
        "seed": config.seed,
        "rounds": config.rounds,
        "clients": config.clients,
        "deployed": not config.participation.simulated,
        "secure": config.secure_sum,
        "metric": task.metric.replace("_", " "),
        "percent": task.percent,
    }


def _class_accuracy(entries: list[dict[str, Any]], classes: int) -> NDArray[np.float64] | None:
    """Return the last test accuracy by class."""
    for entry in reversed(entries):
        values = entry.get("test_class_accuracy")
        if isinstance(values, list) and len(values) == classes and classes:
            numbers = [number_or_none(value) for value in values]
            return np.array([np.nan if n is None else n for n in numbers], np.float64)
    return None


def _columns(rounds: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return what the rounds say about protection, by name; nothing if they have none."""
    keys = dict.fromkeys(key for entry in rounds for key in entry if key.startswith(_PROTECTION))
    columns = {key: [number_or_none(entry.get(key)) for entry in rounds] for key in keys}
    return {"round": [entry["round"] for entry in rounds], **columns} if columns else {}


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
