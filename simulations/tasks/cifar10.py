"""CIFAR-10: small photographs of ten kinds of objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulations.tasks.images.task import OBJECTS, Augmentation, ImageTask, ModelLayout

if TYPE_CHECKING:
    from simulations.tasks.images.sources import Source


@dataclass(frozen=True)
class CIFAR10(ImageTask):
    """Photographs of ten kinds of objects, 50,000 training images."""

    name = "cifar10"
    title = "CIFAR-10"
    place = 2
    classes = OBJECTS
    train_count = 50_000
    test_count = 10_000
    mean = (0.4914, 0.4822, 0.4465)
    std = (0.2023, 0.1994, 0.2010)
    layout = ModelLayout((256, 64, 10))
    augmentation = Augmentation(crop_padding=4, flip=True)
    rounds = 10_000

    def source(self) -> Source:
        """Return CIFAR-10's pickled batches."""
        from simulations.tasks.images.sources import cifar, datasets  # noqa: PLC0415 -- torchvision

        return cifar(datasets.CIFAR10, "cifar-10-python.tar.gz or the folder cifar-10-batches-py")
