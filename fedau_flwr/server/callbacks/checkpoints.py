"""Checkpoints: the model, the strategy's own state and what the callbacks have counted.

One ``.npz`` file without pickles: nested values are JSON, in which an array is a reference to an
entry of the file.
"""

import json
import logging
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ArrayRecord

from ...checks import check
from ...files import save_arrays, sync_directory
from ...wire.records import decode_all, encode
from ..loop import Callback, RoundLoop, RunFailure
from ..report import RoundReport

log = logging.getLogger("flwr.loop")

_ARRAY = "__array__"
_PAIRS = "__pairs__"


class Checkpoints(Callback):
    """Keeps ``checkpoint.npz`` in a directory, and lets the loop go on from it.

    A strategy with ``state_dict`` and ``load_state_dict``, as all of this package have, goes on
    bit for bit; Flower's own go on from model and round. The same holds for callbacks. Only when
    file and directory are safe on the disk, ``strategy.checkpointed(round)`` lets the clients drop
    what a resumed run could still need.

    Parameters
    ----------
    directory : str | Path
        Where the file is.
    every : int (default: 10)
        Rounds between checkpoints; there is also one before the first and after the last.
    resume : bool (default: True)
        Go on from the checkpoint that is there; otherwise it is replaced.
    """

    def __init__(self, directory: str | Path, *, every: int = 10, resume: bool = True) -> None:
        check("every", every, every >= 1, "at least 1")
        self.path = Path(directory) / "checkpoint.npz"
        self._every = every
        self._resume = resume
        self._safe: int | None = None

    def prepare(self, loop: RoundLoop) -> None:
        """Take the loop to where the checkpoint is."""
        if self._resume and self.path.exists():
            self._load(loop, self.read())

    def on_start(self, loop: RoundLoop) -> None:
        """Have a checkpoint to go back to from the first round on."""
        if self._safe is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            sync_directory(self.path.parent.parent)
            self._save(loop)

    def round_done(self, loop: RoundLoop, report: RoundReport) -> None:
        """Write a checkpoint if it is time to."""
        if loop.round % self._every == 0:
            self._save(loop)

    def on_end(self, loop: RoundLoop) -> None:
        """Keep the last round, unless something has failed in it."""
        if loop.status != "failed" and self._safe != loop.round:
            self._save(loop)

    def write(self, state: Mapping[str, Any]) -> None:
        """Make a checkpoint durable."""
        save_checkpoint(self.path, state)

    def read(self) -> dict[str, Any]:
        """Return the last checkpoint."""
        return load_checkpoint(self.path)

    def _save(self, loop: RoundLoop) -> None:
        strategy = loop.strategy
        states = {name: callback.state_dict() for name, callback in _named(loop.callbacks)}
        state: dict[str, Any] = {
            "round": loop.round,
            "attempt": loop.attempt,
            "seconds": loop.seconds,
            "model": decode_all(loop.arrays),
            "strategy": strategy.state_dict() if hasattr(strategy, "state_dict") else {},
            "callbacks": {name: state for name, state in states.items() if state},
        }
        try:
            with loop.timed("checkpoint"):
                self.write(state)
        except OSError as error:
            safe = self._safe
            last = "none is" if safe is None else f"the one of round {safe} is still there"
            raise RunFailure(
                f"The checkpoint of round {loop.round} could not be written to {self.path.parent} "
                f"({error.strerror or error}); {last}."
            ) from error
        self._safe = loop.round
        if hasattr(strategy, "checkpointed"):
            strategy.checkpointed(loop.round)

    def _load(self, loop: RoundLoop, state: Mapping[str, Any]) -> None:
        arrays = encode(state["model"])
        if _shapes(arrays) != _shapes(loop.arrays):
            raise ValueError(f"{self.path} is of another model; choose another directory.")
        # Version 0.1 kept neither attempts nor callbacks.
        attempt = state.get("attempt", 1) + 1
        loop.restore(state["round"], arrays, seconds=state["seconds"], attempt=attempt)
        if state["strategy"] and hasattr(loop.strategy, "load_state_dict"):
            loop.strategy.load_state_dict(state["strategy"])
        saved = state.get("callbacks", {})
        for name, callback in _named(loop.callbacks):
            if name in saved:
                callback.load_state_dict(saved[name])
        self._safe = loop.round
        log.info("Going on after round %d of %s.", loop.round, self.path.parent)


def _named(callbacks: Iterable[Callback]) -> Iterator[tuple[str, Callback]]:
    """Yield callbacks with names that tell them apart."""
    seen: Counter[str] = Counter()
    for callback in callbacks:
        name = type(callback).__name__
        seen[name] += 1
        yield (name if seen[name] == 1 else f"{name}-{seen[name]}"), callback


def _shapes(record: ArrayRecord) -> dict[str, tuple[int, ...]]:
    return {name: tuple(array.shape) for name, array in record.items()}


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Replace the checkpoint at `path` once the new one is safe on the disk."""
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps(_pack(state, arrays))
    save_arrays(path, {**arrays, "state": np.array(text)}, durable=True)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote."""
    try:
        with np.load(path, allow_pickle=False) as file:
            state: dict[str, Any] = _unpack(json.loads(str(file["state"])), file)
            return state
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"The checkpoint {path} cannot be read: {error}.") from None


def _pack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        name = f"array-{len(arrays)}"
        arrays[name] = value
        return {_ARRAY: name}
    if isinstance(value, Mapping):
        # JSON has no other keys than texts, and a ledger counts clients by number.
        return {_PAIRS: [[key, _pack(item, arrays)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [_pack(item, arrays) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _unpack(value: Any, arrays: Any) -> Any:
    if isinstance(value, dict):
        if _ARRAY in value:
            return arrays[value[_ARRAY]]
        return {key: _unpack(item, arrays) for key, item in value[_PAIRS]}
    return [_unpack(item, arrays) for item in value] if isinstance(value, list) else value
