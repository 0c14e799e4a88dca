"""Readers of the official files of the four public data sets, by way of torchvision.

Each takes the spec, the part and a folder and returns images ``[n, 32, 32, 3]`` and labels ``[n]``.
"""

import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from simulations.tasks.vision import datasets

from .arrays import Images, Labels
from .spec import IMAGE_SHAPE, DataError, DatasetSpec

CINIC10_URL = "https://datashare.ed.ac.uk/bitstream/handle/10283/3192/CINIC-10.tar.gz"

Reader = Callable[[DatasetSpec, str, Path, bool], tuple[Images, Labels]]


@dataclass(frozen=True)
class Source:
    """Where a data set comes from: its reader, its addresses and the files that make it up."""

    read: Reader
    addresses: tuple[str, ...]
    files: str
    folder: str | None = None
    archive: str | None = None
    downloads: bool = True

    @contextmanager
    def located(self, given: Path) -> Iterator[Path]:
        """Give the folder that torchvision has to be pointed at, unpacking an archive if needed.

        ``given`` may be that folder, the unpacked folder in it, or the archive or its folder.
        """
        archive = given if given.is_file() else given / (self.archive or "")
        if self.folder is None or (given / self.folder).is_dir():
            yield given
        elif given.name == self.folder and given.is_dir():
            yield given.parent
        elif archive.is_file():
            with TemporaryDirectory() as scratch:
                try:
                    with tarfile.open(archive) as file:
                        file.extractall(scratch, filter="data")
                except (tarfile.TarError, EOFError, OSError) as error:
                    raise DataError(f"{archive} cannot be unpacked: {error}.") from error
                yield Path(scratch)
        else:
            yield given


def _read_cifar(spec: DatasetSpec, part: str, root: Path, download: bool) -> tuple[Images, Labels]:
    """Read CIFAR's pickled batches, whose checksums torchvision verifies."""
    kind = {"cifar10": datasets.CIFAR10, "cifar100": datasets.CIFAR100}[spec.name]
    data = kind(root, train=part == "train", download=download)
    return data.data, np.asarray(data.targets, dtype=np.int64)


def _read_svhn(spec: DatasetSpec, part: str, root: Path, download: bool) -> tuple[Images, Labels]:
    """Read SVHN's MATLAB files, whose checksums torchvision verifies; label 10 becomes 0."""
    data = datasets.SVHN(root, split=part, download=download)
    return np.ascontiguousarray(data.data.transpose(0, 2, 3, 1)), data.labels.astype(np.int64)


def _read_cinic(spec: DatasetSpec, part: str, root: Path, download: bool) -> tuple[Images, Labels]:
    """Read CINIC-10's folders of PNG files, one per class."""
    folder = root / part
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    found = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if found != sorted(spec.classes):
        raise DataError(
            f"{folder} must have one folder per class of {spec.title} "
            f"({', '.join(spec.classes)}), but has {', '.join(found) or 'none'}."
        )
    data = datasets.ImageFolder(folder)
    images = np.empty((len(data), *IMAGE_SHAPE), dtype=np.uint8)
    for k, (image, _) in enumerate(data):
        pixels = np.asarray(image)
        if pixels.shape != IMAGE_SHAPE:
            raise DataError(f"{data.samples[k][0]} must be 32 x 32 pixels, but is {image.size}.")
        images[k] = pixels
    return images, np.asarray(data.targets, dtype=np.int64)


SOURCES = {
    "svhn": Source(
        read=_read_svhn,
        addresses=tuple(datasets.SVHN.split_list[part][0] for part in ("train", "test")),
        files="train_32x32.mat and test_32x32.mat",
    ),
    "cifar10": Source(
        read=_read_cifar,
        addresses=(datasets.CIFAR10.url,),
        files="cifar-10-python.tar.gz or the folder cifar-10-batches-py",
        folder=datasets.CIFAR10.base_folder,
        archive=datasets.CIFAR10.filename,
    ),
    "cifar100": Source(
        read=_read_cifar,
        addresses=(datasets.CIFAR100.url,),
        files="cifar-100-python.tar.gz or the folder cifar-100-python",
        folder=datasets.CIFAR100.base_folder,
        archive=datasets.CIFAR100.filename,
    ),
    "cinic10": Source(
        read=_read_cinic,
        addresses=(CINIC10_URL,),
        files="the folders train and test of the unpacked archive",
        downloads=False,
    ),
}
