"""Files that are whole at any time, and that stay if they are asked to."""

import json
import math
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np


def write_atomically(
    path: Path,
    write: Callable[[IO[bytes]], object],
    *,
    durable: bool = False,
    private: bool = False,
) -> None:
    """Replace a file at once: nobody ever sees a part of it, also if the disk is full.

    A `durable` file is there even after a power failure, under its name, once this returns. A
    `private` one is for its owner alone.
    """
    partial = path.with_name(f".{path.name}-{os.getpid()}")
    # Whatever lies under this name is not ours any more; a link must not lead elsewhere.
    partial.unlink(missing_ok=True)
    handle = open_handle(partial, os.O_WRONLY | os.O_EXCL, 0o600 if private else 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    if durable:
        sync_directory(path.parent)


def open_handle(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a file, made with `mode` if it is not there; a symbolic link is an error."""
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def make_private_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone."""
    if not path.is_dir():
        make_private_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def open_to_others(folder: Path) -> Iterator[str]:
    """Yield what is in a folder, and the folder itself, that others than its owner may read."""
    for path in (folder, *sorted(folder.rglob("*"))):
        status = path.lstat()
        if status.st_mode & 0o077 and not stat.S_ISLNK(status.st_mode):
            yield f"{path} ({status.st_mode & 0o777:04o})"


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable: those of new files are not when the files are."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def save_arrays(
    path: Path, arrays: Mapping[str, Any], *, durable: bool = False, private: bool = False
) -> None:
    """Write arrays into an .npz file at once."""
    write_atomically(path, lambda file: np.savez(file, **arrays), durable=durable, private=private)


def save_text(path: Path, text: str) -> None:
    """Write a text at once."""
    write_atomically(path, lambda file: file.write(text.encode()))


def to_json(values: Mapping[str, Any]) -> str:
    """Return values as one line of JSON, null for what is not a finite number."""
    return json.dumps({key: _plain(value) for key, value in values.items()}, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file with one per line; the last one may still be in the writing."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def append_json_line(path: Path, values: Mapping[str, Any]) -> None:
    """Add an object to a file with one per line."""
    with path.open("a", encoding="utf-8") as file:
        file.write(to_json(values) + "\n")


def drop_rounds_after(path: Path, server_round: int) -> None:
    """Take the objects of rounds that a resumed run will run again out of such a file."""
    kept = [entry for entry in read_json_lines(path) if entry["round"] <= server_round]
    save_text(path, "".join(to_json(entry) + "\n" for entry in kept))
