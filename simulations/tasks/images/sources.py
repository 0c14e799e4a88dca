"""Where the official files of public data sets come from, read by way of torchvision."""

import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from simulations.tasks.arrays import DataError

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Source:
    """Where a data set comes from: its reader, its address and the files that make it up.

    The reader gets a part, a folder and whether to download it first, and returns images
    ``[n, 32, 32, 3]`` and labels ``[n]``.
    """

    read: Callable[[str, Path, bool], tuple[Images, Labels]]
    address: str
    files: str
    folder: str | None = None
    archive: str = ""
    downloads: bool = True

    @contextmanager
    def located(self, given: Path | None, place: Path) -> Iterator[Path]:
        """Give the folder that torchvision has to be pointed at, unpacking an archive if needed.

        ``given`` may be that folder, the unpacked folder in it, or the archive or its folder. None
        is for a download. What is downloaded or unpacked goes to ``place``, and does not stay.
        """
        with TemporaryDirectory(prefix=".download-", dir=place) as name:
            if given is None:
                given = Path(name)
            elif self.folder is not None and not (given / self.folder).is_dir():
                archive = given if given.is_file() else given / self.archive
                if given.name == self.folder and given.is_dir():
                    given = given.parent
                elif archive.is_file():
                    given = _unpacked(archive, Path(name))
            yield given


def _unpacked(archive: Path, folder: Path) -> Path:
    try:
        with tarfile.open(archive) as file:
            file.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{archive} cannot be unpacked: {error}.") from error
    return folder


def cifar(name: str, archive: str, folder: str) -> Source:
    """Return the pickled batches of CIFAR-10 or CIFAR-100, whose checksums torchvision verifies."""

    def read(part: str, root: Path, download: bool) -> tuple[Images, Labels]:
        from simulations.tasks.images.vision import datasets  # noqa: PLC0415 -- slow

        data = getattr(datasets, name)(root, train=part == "train", download=download)
        return data.data, np.asarray(data.targets, dtype=np.int64)

    address = f"https://www.cs.toronto.edu/~kriz/{archive}"
    return Source(read, address, f"{archive} or the folder {folder}", folder, archive)
