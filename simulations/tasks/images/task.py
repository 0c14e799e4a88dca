"""Tasks on images of 32 x 32 pixels, as in the paper: layers, random changes, array files.

``<data-dir>/<name>/{train,test}-{images,labels}.npy``: images ``uint8 [n, 32, 32, 3]``, labels
``int64 [n]``. All workers of a machine map the same files, so they are in memory once.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from simulations.tasks.arrays import PARTS, Arrays, DataError, Part, load_array, staged
from simulations.tasks.base import Task
from simulations.tasks.images.sources import Images, Labels, Source

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

IMAGE_SHAPE = (32, 32, 3)


@dataclass(frozen=True)
class ModelLayout:
    """Widths of the fully connected layers and what comes before them.

    ``pool`` makes the network one of fully connected layers alone, on images averaged over
    ``pool x pool`` pixels; without it two convolutions come first.
    """

    widths: tuple[int, ...]
    dropout: float = 0.0
    pool: int | None = None


@dataclass(frozen=True)
class Augmentation:
    """Random changes of a training image; ``colour`` stands for CIFAR-100's four of them."""

    crop_padding: int = 0
    flip: bool = False
    colour: bool = False


@dataclass(frozen=True)
class ImageTask(Task):
    """Classification of images in array files."""

    mean: ClassVar[tuple[float, float, float]]
    std: ClassVar[tuple[float, float, float]]
    layout: ClassVar[ModelLayout]
    augmentation: ClassVar[Augmentation] = Augmentation()
    source: ClassVar[Source]

    def folder(self, data_dir: Path, *, seed: int = 1) -> Path:
        """Return where the array files are."""
        return data_dir / self.name

    def open(self, data_dir: Path, *, seed: int = 1) -> Arrays:
        """Map the array files and check them."""
        folder = self.folder(data_dir, seed=seed)
        for path in [path for part in PARTS for path in part_files(folder, part)]:
            if not path.is_file():
                command = f"fedau data prepare {self.name} --data-dir {folder.parent}"
                raise DataError(f"{path} is missing: run `{command}` first.")
        return Arrays(*(open_part(self, folder, part, self.count(part)) for part in PARTS))

    def open_own(self, folder: Path, part: str) -> Part | None:
        """Map images and labels of the task's classes that lie in `folder` itself."""
        files = part_files(folder, part)
        if not any(path.is_file() for path in files):
            return None
        return open_part(self, folder, part, len(np.atleast_1d(load_array(files[1]))))

    def prepare(self, data_dir: Path, *, source: Path | None = None, seed: int = 1) -> Path:
        """Write the array files, from a download or from the official files in `source`.

        That is a folder or an archive. `DataError` says what is missing, cannot be fetched or
        written, or is not what it should be.
        """
        folder = self.folder(data_dir, seed=seed)
        try:
            with staged(folder) as staging:
                self.write(staging, source, seed)
        except OSError as error:
            raise DataError(f"data-dir {data_dir} cannot be written: {error}.") from error
        return folder

    def write(self, folder: Path, source: Path | None, seed: int) -> None:
        """Write the array files of both parts to a folder."""
        official, download = self.source, source is None
        by_hand = (
            f"fetch {official.address} on a machine with network access and run "
            f"`fedau data prepare {self.name} --from FOLDER` on the folder with {official.files}"
        )
        if download and not official.downloads:
            raise DataError(f"{self.title} cannot be downloaded by this program: {by_hand}.")
        with official.located(source, folder.parent) as root:
            for part in PARTS:
                try:
                    images, labels = official.read(part, root, download)
                except (OSError, RuntimeError) as error:
                    reason = str(error).split("\n", 1)[0].split(". ", 1)[0].rstrip(".")
                    raise DataError(
                        f"{self.title} could not be downloaded ({reason}): {by_hand}."
                        if download
                        else f"{source} does not hold {official.files} of {self.title} as "
                        f"published ({reason}); they are at {official.address}."
                    ) from error
                where = "the download" if download else str(source)
                check_part(self, part, images, labels, count=self.count(part), where=where)
                check_classes(self, part, labels, where)
                for path, array in zip(part_files(folder, part), [images, labels], strict=True):
                    np.save(path, np.asarray(array))

    def model(self) -> nn.Module:
        """Return the paper's network in the layout that is fastest."""
        import torch  # noqa: PLC0415 -- as in the base class

        from simulations.tasks.images.models import Classifier  # noqa: PLC0415

        # torch's types do not know this way to call it.
        return Classifier(self.layout).to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    def transform(self, inputs: Tensor) -> Tensor:
        """Return normalised images ``[n, 3, 32, 32]``."""
        from simulations.tasks.images.augmentation import normalised  # noqa: PLC0415

        return normalised(inputs, self)

    def augment(self, inputs: Tensor, generator: torch.Generator, *, share: int) -> Tensor:
        """Return normalised, randomly changed images ``[n, 3, 32, 32]``."""
        from simulations.tasks.images.augmentation import augment  # noqa: PLC0415

        return augment(inputs, self, generator, share=share)


def check_part(
    task: ImageTask, part: str, images: Images, labels: Labels, *, count: int, where: str
) -> None:
    """Raise ``DataError`` unless images and labels are those the data set should have."""
    for kind, array, dtype, shape in (
        ("images", images, np.dtype(np.uint8), (count, *IMAGE_SHAPE)),
        ("labels", labels, np.dtype(np.int64), (count,)),
    ):
        if array.dtype != dtype or array.shape != shape:
            rule = f"{dtype} {list(shape)}, but are {array.dtype} {list(array.shape)}"
            raise DataError(f"{where}: the {part} {kind} of {task.title} must be {rule}.")
    present, last = np.unique(labels), task.num_classes - 1
    if count and (present[0] < 0 or present[-1] > last):
        rule = f"within 0 to {last}, but reach from {present[0]} to {present[-1]}"
        raise DataError(f"{where}: the {part} labels of {task.title} must be {rule}.")


def check_classes(task: ImageTask, part: str, labels: Labels, where: str) -> None:
    """Raise ``DataError`` unless every class occurs."""
    missing = np.setdiff1d(np.arange(task.num_classes), labels)
    if len(missing):
        names = ", ".join(task.classes[c] for c in missing[:5])
        raise DataError(f"{where}: the {part} set of {task.title} has no sample of class {names}.")


def part_files(folder: Path, part: str) -> tuple[Path, Path]:
    """Return where images and labels of a part are."""
    return folder / f"{part}-images.npy", folder / f"{part}-labels.npy"


def open_part(task: ImageTask, folder: Path, part: str, count: int) -> Part:
    """Map the array files of one part and check them."""
    images, labels = map(load_array, part_files(folder, part))
    check_part(task, part, images, labels, count=count, where=str(folder))
    # The labels are read at every evaluation and are small: they leave the file.
    return Part(images, np.array(labels))
