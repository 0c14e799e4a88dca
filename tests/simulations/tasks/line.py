"""A regression with a split of its own: points on a line, dealt out by their place on it."""

from dataclasses import dataclass

import numpy as np
from torch import nn

from simulations.tasks import Arrays, Part, StepSize, Task


@dataclass(frozen=True)
class Line(Task):
    """y = 3x - 1 without noise."""

    own_split: bool = True

    train_count = 120
    test_count = 30
    step_size = StepSize(0.2)

    def open(self, data_dir, *, seed):
        """Return points at random places."""
        x = np.random.default_rng(seed).uniform(-1, 1, (150, 1)).astype(np.float32)
        y = 3 * x[:, 0] - 1
        return Arrays(Part(x[:120], y[:120]), Part(x[120:], y[120:]))

    def model(self):
        """Return a line."""
        return nn.Linear(1, 1)

    def split(self, targets, *, clients, seed):
        """Give each client a stretch of the line."""
        return np.array_split(np.argsort(targets), clients) if self.own_split else None
