"""CIFAR-10: small photographs of ten kinds of objects."""

from dataclasses import dataclass

from simulations.tasks.images.sources import cifar
from simulations.tasks.images.task import Augmentation, ImageTask, ModelLayout


@dataclass(frozen=True)
class CIFAR10(ImageTask):
    """Photographs of ten kinds of objects, 50,000 training images."""

    title = "CIFAR-10"
    place = 2
    classes = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship",
               "truck")  # fmt: skip
    train_count = 50_000
    test_count = 10_000
    mean = (0.4914, 0.4822, 0.4465)
    std = (0.2023, 0.1994, 0.2010)
    layout = ModelLayout((256, 64, 10))
    augmentation = Augmentation(crop_padding=4, flip=True)
    rounds = 10_000
    source = cifar("CIFAR10", "cifar-10-python.tar.gz", "cifar-10-batches-py")
