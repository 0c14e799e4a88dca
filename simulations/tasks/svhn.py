"""SVHN: house numbers."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simulations.tasks.images.sources import Images, Labels, Source
from simulations.tasks.images.task import Augmentation, ImageTask, ModelLayout


def _read(part: str, root: Path, download: bool) -> tuple[Images, Labels]:
    """Read a MATLAB file; torchvision verifies the checksum, and label 10 becomes 0."""
    from simulations.tasks.images.vision import datasets  # noqa: PLC0415 -- slow

    data = datasets.SVHN(root, split=part, download=download)
    return np.ascontiguousarray(data.data.transpose(0, 2, 3, 1)), data.labels.astype(np.int64)


@dataclass(frozen=True)
class SVHN(ImageTask):
    """Digits of house numbers, 73,257 training images."""

    title = "SVHN"
    place = 1
    classes = tuple("0123456789")
    train_count = 73_257
    test_count = 26_032
    mean = (0.4376821, 0.4437697, 0.47280442)
    std = (0.19803012, 0.20101562, 0.19703614)
    layout = ModelLayout((128, 10))
    augmentation = Augmentation(crop_padding=4)
    rounds = 2_000
    source = Source(
        _read,
        address="http://ufldl.stanford.edu/housenumbers/train_32x32.mat and "
        "http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
        files="train_32x32.mat and test_32x32.mat",
    )
