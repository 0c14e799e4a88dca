"""Local training as one would write it down first: what our training step is compared with.

A module in default layout, ReLU before the pooling, `torch.optim.SGD`, and memory as glibc manages
it. Batches and their changes are as many as ours and made in the same way.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from simulations.nodes.batches import batch_positions
from simulations.nodes.resident import Parameters
from simulations.nodes.trainer import LocalResult
from simulations.tasks.arrays import Part
from simulations.tasks.images.models import Classifier


class PlainTrainer:
    """Has the interface of `LocalTrainer`."""

    def __init__(self, task: Any, train: Part) -> None:
        torch.set_num_threads(1)
        self._task = task
        self._train = train
        self._changes = torch.Generator()

    def train(
        self,
        parameters: Mapping[str, np.ndarray],
        indices: NDArray[np.int64],
        *,
        lr: float,
        seed: tuple[int, int, int],
        steps: int,
        batch: int,
    ) -> LocalResult:
        """Run `steps` steps of size `lr` from `parameters` on the samples `indices`."""
        module = PlainClassifier(self._task.layout)
        module.load_state_dict({name: torch.tensor(v) for name, v in parameters.items()})
        optimiser = torch.optim.SGD(module.parameters(), lr=lr)
        self._changes.manual_seed(hash(seed) % 2**63)
        rng = np.random.default_rng(seed)
        positions = batch_positions(len(indices), steps=steps, batch=batch, rng=rng)
        losses = []
        for chosen in indices[positions] if len(indices) else ():
            pixels = torch.from_numpy(self._train.inputs[chosen])
            images = self._task.augment(pixels, self._changes, share=1).contiguous()
            targets = torch.from_numpy(self._train.targets[chosen])
            loss = functional.cross_entropy(module(images), targets)
            optimiser.zero_grad()
            torch.autograd.backward(loss)
            optimiser.step()
            losses.append(loss.item())
        trained: Parameters = {k: v.detach().numpy() for k, v in module.named_parameters()}
        return LocalResult(trained, loss=float(np.mean(losses or [0.0])), steps=len(losses))


class PlainClassifier(Classifier):
    """The network in the order in which the paper describes it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        if self.pool is None:
            x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
            x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        else:
            x = functional.avg_pool2d(x, self.pool)
        x = x.flatten(1)
        for layer in self.dense[:-1]:
            x = functional.relu(layer(x))
        logits: torch.Tensor = self.dense[-1](x)
        return logits
