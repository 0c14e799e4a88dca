"""The array files of a data set: opened memory-mapped and checked, written so that none is partial.

``<data-dir>/<name>/{train,test}-{images,labels}.npy``: images ``uint8 [n, 32, 32, 3]``, labels
``int64 [n]``. All workers of a machine map the same files, so they are in memory once.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .spec import IMAGE_SHAPE, DataError, DatasetSpec

PARTS = ("train", "test")

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


def default_data_dir() -> Path:
    """Return where data sets are kept unless told otherwise, outside of any checkout."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "fedau" / "data"


@dataclass(frozen=True)
class Part:
    """Images and labels of the training or of the test set."""

    images: Images
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Arrays:
    """Both parts of a data set."""

    train: Part
    test: Part


def check_part(spec: DatasetSpec, part: str, images: Images, labels: Labels, where: str) -> None:
    """Raise ``DataError`` unless images and labels are those the data set should have."""
    count = spec.count(part)
    for kind, array, dtype, shape in (
        ("images", images, np.dtype(np.uint8), (count, *IMAGE_SHAPE)),
        ("labels", labels, np.dtype(np.int64), (count,)),
    ):
        if array.dtype != dtype or array.shape != shape:
            raise DataError(
                f"{where}: the {part} {kind} of {spec.title} must be {dtype} {list(shape)}, "
                f"but are {array.dtype} {list(array.shape)}."
            )
    present = np.unique(labels)
    if count and (present[0] < 0 or present[-1] >= spec.num_classes):
        raise DataError(
            f"{where}: the {part} labels of {spec.title} must be within 0 to "
            f"{spec.num_classes - 1}, but reach from {present[0]} to {present[-1]}."
        )


def check_classes(spec: DatasetSpec, part: str, labels: Labels, where: str) -> None:
    """Raise ``DataError`` unless every class occurs."""
    missing = np.setdiff1d(np.arange(spec.num_classes), labels)
    if len(missing):
        raise DataError(
            f"{where}: the {part} set of {spec.title} has no sample of class "
            f"{', '.join(spec.classes[c] for c in missing[:5])}."
        )


def _load(path: Path) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as an array file: {error}.") from error


def part_files(folder: Path, part: str) -> tuple[Path, Path]:
    """Return where images and labels of a part are."""
    return folder / f"{part}-images.npy", folder / f"{part}-labels.npy"


def open_part(spec: DatasetSpec, folder: Path, part: str) -> Part:
    """Map the array files of one part and check them."""
    images, labels = map(_load, part_files(folder, part))
    check_part(spec, part, images, labels, str(folder))
    # The labels are read at every evaluation and are small: they leave the file.
    return Part(images, np.array(labels))


def open_own(spec: DatasetSpec, folder: Path, part: str) -> Part:
    """Map a part of somebody's own data: samples of the set's classes, as many as there are."""
    labels = _load(part_files(folder, part)[1])
    sized = replace(spec, **{f"{part}_count": len(np.atleast_1d(labels))})
    return open_part(sized, folder, part)


def open_folder(spec: DatasetSpec, folder: Path) -> Arrays:
    """Map the array files in ``folder`` and check them."""
    for part in PARTS:
        for path in part_files(folder, part):
            if not path.is_file():
                raise DataError(
                    f"{path} is missing: run `fedau data prepare {spec.name} "
                    f"--data-dir {folder.parent}` first."
                )
    return Arrays(**{part: open_part(spec, folder, part) for part in PARTS})


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
