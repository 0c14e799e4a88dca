"""The paper's networks, and a small one for the synthetic data set."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from simulations.tasks.base import Task
from simulations.tasks.images.task import ModelLayout


class SeededDropout(nn.Module):
    """Dropout whose masks come from a generator of its own, so that any round can be repeated."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.keep = 1 - probability
        self.generator: torch.Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Drop entries while training, pass them through otherwise."""
        if not self.training or self.keep == 1:
            return x
        mask = torch.empty_like(x).bernoulli_(self.keep, generator=self.generator)
        return x * mask.div_(self.keep)


class Classifier(nn.Module):
    """Convolutions (or averages over ``pool x pool`` pixels), then fully connected layers.

    Weights are Kaiming-normal and biases zero except in the last layer, which keeps the
    framework's default.
    """

    def __init__(self, layout: ModelLayout) -> None:
        super().__init__()
        self.pool = layout.pool
        if layout.pool is None:
            self.conv1 = nn.Conv2d(3, 32, 3, padding=1)
            self.conv2 = nn.Conv2d(32, 32, 3, padding=1)
        inputs = 32 * 8**2 if layout.pool is None else 3 * (32 // layout.pool) ** 2
        self.dense = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise((inputs, *layout.widths)))
        self.dropout = SeededDropout(layout.dropout)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear) and layer is not self.dense[-1]:
                nn.init.kaiming_normal_(layer.weight)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of normalised images ``[n, 3, 32, 32]``."""
        if self.pool is None:
            # max and ReLU commute; in this order ReLU sees a quarter of the values.
            x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
            x = functional.relu(functional.max_pool2d(self.conv2(x), 2))
        else:
            x = functional.avg_pool2d(x, self.pool)
        x = x.flatten(1)
        for layer in self.dense[:-1]:
            x = functional.relu(layer(self.dropout(x)))
        logits: Tensor = self.dense[-1](self.dropout(x))
        return logits


def build_model(task: Task, *, seed: int) -> nn.Module:
    """Build the network of a task with the initial weights of a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return task.model()
