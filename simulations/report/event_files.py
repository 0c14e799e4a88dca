"""TensorBoard event files of a run, next to its metrics."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedau_flwr.server.callbacks.writers import ScalarWriter
from simulations.config import ConfigError
from simulations.runs.directory import RunDirectory
from simulations.runs.summary import SHOWN_CLASSES
from simulations.tasks.arrays import PARTS

_TAGS = {f"{part}_{kind}": f"{kind}/{part}" for kind in ("loss", "accuracy") for part in PARTS}
_TAGS |= {key: f"participation/{key}" for key in ("participants", "counted")}


def require_tensorboard() -> None:
    """Raise `ConfigError` where TensorBoard is not installed."""
    if find_spec("tensorboard") is None:
        raise ConfigError(
            "tensorboard is true, but must be false unless TensorBoard is installed: run "
            "`pip install -e '.[tensorboard]'` in the clone."
        )


class EventFiles:
    """Follows a run and writes its reports as they come; a context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: list[int] = []
        self._writer: ScalarWriter | None = None

    def __enter__(self) -> EventFiles:
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
            self._writer.add(entry["round"], _scalars(entry, classes))
        self._writer.flush()
        self._written = rounds

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._writer, self._written = None, []


def _scalars(entry: dict[str, Any], classes: tuple[str, ...]) -> dict[str, Any]:
    values = {tag: entry.get(key) for key, tag in _TAGS.items()}
    if len(classes) <= SHOWN_CLASSES:
        by_class = zip(classes, entry.get("test_class_accuracy", ()), strict=True)
        values |= {f"test accuracy by class/{name}": value for name, value in by_class}
    return values
