"""SVHN: house numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from simulations.tasks.images.task import Augmentation, Images, ImageTask, Labels, ModelLayout

if TYPE_CHECKING:
    from simulations.tasks.images.sources import Source


@dataclass(frozen=True)
class SVHN(ImageTask):
    """Digits of house numbers, 73,257 training images."""

    name = "svhn"
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

    def source(self) -> Source:
        """Return SVHN's MATLAB files."""
        from simulations.tasks.images.sources import Source, datasets  # noqa: PLC0415 -- torchvision

        def read(part: str, root: Path, download: bool) -> tuple[Images, Labels]:
            # torchvision verifies the checksums; label 10 becomes 0.
            data = datasets.SVHN(root, split=part, download=download)
            images = np.ascontiguousarray(data.data.transpose(0, 2, 3, 1))
            return images, data.labels.astype(np.int64)

        return Source(
            read,
            addresses=tuple(datasets.SVHN.split_list[part][0] for part in ("train", "test")),
            files="train_32x32.mat and test_32x32.mat",
        )
