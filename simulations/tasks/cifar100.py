"""CIFAR-100: small photographs of a hundred kinds of objects."""

from dataclasses import dataclass

from simulations.tasks.images.sources import cifar
from simulations.tasks.images.task import Augmentation, ImageTask, ModelLayout


@dataclass(frozen=True)
class CIFAR100(ImageTask):
    """Photographs of a hundred kinds of objects, 50,000 training images."""

    title = "CIFAR-100"
    place = 3
    classes = tuple(f"fine-{label}" for label in range(100))
    train_count = 50_000
    test_count = 10_000
    mean = (0.4914, 0.4822, 0.4465)
    std = (0.2023, 0.1994, 0.2010)
    layout = ModelLayout((512, 256, 100), dropout=0.2)
    augmentation = Augmentation(crop_padding=4, flip=True, colour=True)
    rounds = 20_000
    halve_local_at = (10_001, *range(11_000, 20_000, 1_000))
    source = cifar("CIFAR100", "cifar-100-python.tar.gz", "cifar-100-python")
