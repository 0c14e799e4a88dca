"""A task of one's own: scikit-learn's handwritten digits and a small network."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from torch import nn

from simulations.tasks import Arrays, Part, StepSize, Task


@dataclass(frozen=True)
class Digits(Task):
    """Handwritten digits of 8 x 8 pixels, 1,500 training images."""

    width: int = 32

    title = "digits"
    classes = tuple("0123456789")
    train_count = 1_500
    test_count = 297
    rounds = 50
    step_size = StepSize(0.1)

    def open(self, data_dir: Path, *, seed: int) -> Arrays:
        """Return the images, which come with scikit-learn."""
        images, labels = load_digits(return_X_y=True)
        images, labels = (images / 16).astype(np.float32), labels.astype(np.int64)
        cut = self.train_count
        return Arrays(Part(images[:cut], labels[:cut]), Part(images[cut:], labels[cut:]))

    def model(self) -> nn.Module:
        """Return a network with one hidden layer."""
        return nn.Sequential(nn.Linear(64, self.width), nn.ReLU(), nn.Linear(self.width, 10))
