"""CINIC-10: CIFAR-10's kinds of objects, with images of ImageNet among them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simulations.tasks.arrays import DataError
from simulations.tasks.cifar10 import CIFAR10
from simulations.tasks.images.sources import Images, Labels, Source
from simulations.tasks.images.task import IMAGE_SHAPE, Augmentation, ImageTask, ModelLayout


def _read(part: str, root: Path, download: bool) -> tuple[Images, Labels]:
    """Read the folders of PNG files, one per class."""
    from simulations.tasks.images.vision import datasets  # noqa: PLC0415 -- slow

    folder = root / part
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}")
    found = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if found != sorted(CIFAR10.classes):
        raise DataError(
            f"{folder} must have one folder per class of CINIC-10 ({', '.join(CIFAR10.classes)}), "
            f"but has {', '.join(found) or 'none'}."
        )
    data = datasets.ImageFolder(folder)
    images = np.empty((len(data), *IMAGE_SHAPE), dtype=np.uint8)
    for k, (image, _) in enumerate(data):
        pixels = np.asarray(image)
        if pixels.shape != IMAGE_SHAPE:
            raise DataError(f"{data.samples[k][0]} must be 32 x 32 pixels, but is {image.size}.")
        images[k] = pixels
    return images, np.asarray(data.targets, dtype=np.int64)


@dataclass(frozen=True)
class CINIC10(ImageTask):
    """CIFAR-10's kinds of objects from two sources, 90,000 training images."""

    title = "CINIC-10"
    place = 4
    classes = CIFAR10.classes
    train_count = 90_000
    test_count = 90_000
    mean = (0.47889522, 0.47227842, 0.43047404)
    std = (0.24205776, 0.23828046, 0.25874835)
    layout = ModelLayout((512, 256, 10), dropout=0.2)
    augmentation = Augmentation(crop_padding=4, flip=True)
    rounds = 10_000
    source = Source(
        _read,
        address="https://datashare.ed.ac.uk/bitstream/handle/10283/3192/CINIC-10.tar.gz",
        files="the folders train and test of the unpacked archive",
        downloads=False,
    )
