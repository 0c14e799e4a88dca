"""Training and test set as arrays, and their files: written so that none is ever partial."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

PARTS = ("train", "test")


class DataError(ValueError):
    """Data that are missing or not what they should be; the message is one sentence."""


def default_data_dir() -> Path:
    """Return where data sets are kept unless told otherwise, outside of any checkout."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "fedau" / "data"


@dataclass(frozen=True)
class Part:
    """Inputs and targets of the training or of the test set, one sample per row."""

    inputs: NDArray[Any]
    targets: NDArray[Any]

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class Arrays:
    """Both parts of a data set."""

    train: Part
    test: Part


def load_array(path: Path) -> NDArray[Any]:
    """Map an array file."""
    try:
        return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as an array file: {error}.") from error


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Give a temporary folder whose files move into ``folder`` once the block has succeeded.

    The move is a rename per file on one file system: no file is ever there in part.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=folder.parent) as name:
        staging = Path(name)
        yield staging
        folder.mkdir(exist_ok=True)
        for path in sorted(staging.iterdir()):
            with path.open("rb") as file:
                os.fsync(file.fileno())
            path.replace(folder / path.name)
