"""A directory that survives restarts: one folder per training and client.

``DIR/TRAINING/CLIENT/state.json`` holds the scalars, ``memory-ROUND.npz`` beside it the
arrays that a method remembers, ``answered`` the rounds that the client has answered, where a rule
needs them. Files are written under another name, flushed to the disk and renamed, vectors before
the JSON that refers to them: whatever moment a process dies in, the folder holds one whole state.
"""

from __future__ import annotations

import fcntl
import os
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np
from flwr.app import Context

from .._log import log
from ..arrays import Arrays
from ..files import make_private_folder, open_handle, open_to_others, save_arrays, write_atomically
from ..weight_state import StateError
from ..wire.requests import Refusal
from .answered import Answers
from .store import ContextStore, Store, Version, flattened, versions_from_json, versions_to_json

STATE = "state.json"
ANSWERED = "answered"
BUDGET, SPENT = "all.budget", "spent"
"""The folder for all trainings together, which are about the same data, and its book."""
STATE_DIR = "fedau-state-dir"
_UNREADABLE = (StateError, OSError, UnicodeDecodeError)


def state_directory(context: Context) -> StateDirectory | None:
    """Return the directory in which this client keeps its state, if one is configured."""
    root = context.node_config.get(STATE_DIR)
    if not root:
        if STATE_DIR in context.run_config:
            log.warning("%s in the run config is ignored: the node config decides.", STATE_DIR)
        return None
    warn_if_open(Path(str(root)))
    # A node id is no name for a client: without node authentication each start brings a new one.
    return StateDirectory(str(root), f"client-{context.node_config.get('partition-id', 'only')}")


@lru_cache(maxsize=8)
def warn_if_open(root: Path) -> None:
    """Warn, once in each process, if others may read what is in a state directory."""
    try:
        loose = list(open_to_others(root)) if root.is_dir() else []
    except OSError:  # what cannot be looked at is refused when it is used
        return
    if loose:
        log.warning(
            "%s is open to others than its owner, in %d places such as %s: chmod -R go= %s.",
            STATE_DIR,
            len(loose),
            loose[0],
            root,
        )


def open_store(context: Context) -> Store:
    """Return where this client keeps its state: a directory if one is configured."""
    return state_directory(context) or ContextStore(context)


class StateDirectory(Store):
    """Keeps the versions of one client in a directory, which others may share."""

    def __init__(self, root: Path | str, client: str) -> None:
        self._root = Path(root)
        self._client = client

    def folder(self, training: str) -> Path:
        """Return where the client's state of `training` is."""
        return self._root / training / self._client

    @contextmanager
    def locked(self, training: str) -> Iterator[None]:
        """Hold the client's state of `training`; another process that holds it is an error."""
        folder = self.folder(training)
        try:
            make_private_folder(folder)
            handle = open_handle(folder / "lock", os.O_RDWR)
        except OSError as error:
            raise Refusal(
                f"fedau-state-dir is {str(self._root)!r}, but must be a directory that can be "
                f"written to ({error.strerror})."
            ) from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Refusal(
                    f"The state in {str(folder)!r} is in use by another process; give each client "
                    "its own fedau-state-dir or its own partition-id."
                ) from None
            yield
        finally:
            os.close(handle)

    def load(self, training: str) -> list[Version]:
        """Return the versions; a state that cannot be read is set aside, never overwritten."""
        folder = self.folder(training)
        try:
            return read_versions(folder) if (folder / STATE).exists() else []
        except _UNREADABLE as error:
            log.warning("%s Moved to %s; the client starts afresh.", error, _set_aside(folder))
            return []

    def save(self, training: str, versions: Sequence[Version]) -> None:
        """Replace all versions at once."""
        folder = self.folder(training)
        wanted = set()
        try:
            for version in versions:
                if arrays := version.arrays():
                    path = folder / _memory_file(version.round, version.attempt)
                    wanted.add(path)
                    # A process that died before the JSON was written may have left other vectors.
                    if version is versions[-1] or not path.exists():
                        save_arrays(path, flattened(arrays), durable=True, private=True)
            text = versions_to_json(training, versions).encode()
            write_atomically(
                folder / STATE, lambda file: file.write(text), durable=True, private=True
            )
            for path in {*folder.glob("*.npz"), *folder.glob(".*")} - wanted:
                path.unlink()
        except OSError as error:
            raise _not_written(folder, error) from None

    def answers(self, training: str) -> Answers:
        """Return what was answered; a damaged record is an error, for nobody knows it then."""
        path = self.folder(training) / ANSWERED
        try:
            text = path.read_text(encoding="utf-8") if path.exists() else None
            return Answers() if text is None else Answers.from_json(text, training)
        except _UNREADABLE as error:
            raise Refusal(
                f"The record of answered rounds {str(path)!r} cannot be read ({error}), so this "
                "client takes no part in the training any more."
            ) from None

    def record(self, training: str, answers: Answers) -> None:
        """Keep `answers` durably."""
        folder, text = self.folder(training), answers.to_json(training).encode()
        try:
            write_atomically(
                folder / ANSWERED, lambda file: file.write(text), durable=True, private=True
            )
        except OSError as error:
            raise _not_written(folder, error) from None


def _not_written(folder: Path, error: OSError) -> Refusal:
    return Refusal(
        f"The state in {str(folder)!r} could not be written ({error.strerror}); the "
        "round is given up and the last state kept."
    )


def read_versions(folder: Path) -> list[Version]:
    """Read the state in a client's folder; raises `StateError` if it is not whole."""
    text = (folder / STATE).read_text(encoding="utf-8")
    return versions_from_json(
        text, folder.parent.name, lambda *version: _unpack(folder / _memory_file(*version))
    )


def _memory_file(server_round: int, attempt: int) -> str:
    return f"memory-{server_round}-{attempt}.npz"


def _unpack(path: Path) -> Arrays:
    try:
        with np.load(path, allow_pickle=False) as content:
            return {key: content[key] for key in content.files}
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise StateError(path.name, str(error), "a whole file of arrays") from None


def _set_aside(folder: Path) -> Path:
    number = 1
    while (aside := folder / f"unreadable-{number}").exists():
        number += 1
    aside.mkdir(mode=0o700)
    for path in [*folder.glob("*.json"), *folder.glob("*.npz")]:
        path.rename(aside / path.name)
    return aside


def describe(root: Path) -> Iterator[str]:
    """Yield the contents of a state directory in plain words, a line per client and version."""
    for path in sorted(root.glob(f"*/*/{STATE}")):
        where = f"training {path.parent.parent.name}, client {path.parent.name}"
        try:
            versions = read_versions(path.parent)
        except _UNREADABLE as error:
            yield f"{where}: unreadable. {error}"
            continue
        for version in versions:
            state = version.state
            holding = "" if version.memory is None else ", holding what it sent before"
            yield (
                f"{where}: last sent for round {version.round} (attempt {version.attempt}), with "
                f"weight {state.weight:.6g} from {state.intervals} closed intervals and "
                f"{state.elapsed} rounds since the last{holding}."
            )
    for path in sorted(root.glob(f"{BUDGET}/*/{SPENT}")):
        lines = path.read_text(encoding="ascii", errors="replace").split()
        charged = Counter(line.partition("@")[0] for line in lines)
        noise = ", ".join(f"{z} ({count} times)" for z, count in charged.items()) or "none"
        yield f"all trainings, client {path.parent.name}: spent noise multipliers {noise}."
