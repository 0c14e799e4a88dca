"""Local training: I steps of plain SGD on one client's data, by a trainer that stays resident.

A client starts a fresh shuffled pass over its data in every round, seeded by (seed, client, round):
no state is kept between rounds, and any round can be repeated.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from simulations.nodes.kernel.choose import draw_masks
from simulations.nodes.resident import Parameters, ResidentModel, settle_worker
from simulations.tasks.arrays import Part
from simulations.tasks.augmentation import Normalisation, augment
from simulations.tasks.spec import IMAGE_SHAPE, DatasetSpec

_BATCHES, _CHANGES = 0xBA7C, 0xC4A6  # tell the streams of one (seed, client, round) apart


@dataclass(frozen=True)
class LocalResult:
    """What local training gives: the parameters ``y``, and the mean loss over the steps.

    The loss is what it is, NaN and infinity included; ``steps`` is 0 for a client without data,
    whose parameters are those it was given and whose loss is 0.
    """

    parameters: Parameters
    loss: float
    steps: int


def batch_positions(
    size: int, *, steps: int, batch: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return which of a client's ``size`` samples each step uses, ``[steps, min(batch, size)]``.

    Batches follow a shuffled pass; a short last one is dropped and the data reshuffled. A client
    with fewer samples than a batch uses all of them in each step.
    """
    if size <= batch:
        return np.tile(np.arange(size), (steps, 1))
    per_pass = size // batch
    passes = [rng.permutation(size)[: per_pass * batch] for _ in range(-(-steps // per_pass))]
    return np.concatenate(passes)[: steps * batch].reshape(steps, batch)


class LocalTrainer:
    """Trains one client after the other with one resident network on one resident data set.

    Parameters
    ----------
    spec : DatasetSpec
        The data set, with its model and augmentation.
    train : Part
        Its training set, memory-mapped.
    device : str
        ``cpu``, ``cuda``, ``cuda:N`` or ``auto``.
    augment_per_batch : bool
        Draw one crop and flip per mini-batch, as the paper's authors did, instead of per image.
    kernel : str
        ``native``, ``torch``, or ``auto``, which is native where that is possible.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        train: Part,
        *,
        device: str = "cpu",
        augment_per_batch: bool = False,
        kernel: str = "auto",
        model: ResidentModel | None = None,
    ) -> None:
        settle_worker()
        self.spec = spec
        self.model = model or ResidentModel(spec, device=device, kernel=kernel)
        self._train = train
        self._per_batch = augment_per_batch
        self._normalise = Normalisation(spec, self.model.device)
        self._changes = torch.Generator()
        self._dropout = torch.Generator(self.model.device)
        self.model.module.dropout.generator = self._dropout

    def train(
        self,
        parameters: Mapping[str, np.ndarray],
        indices: NDArray[np.int64],
        *,
        lr: float,
        seed: tuple[int, int, int],
        steps: int = 5,
        batch: int = 16,
    ) -> LocalResult:
        """Run ``steps`` steps of size ``lr`` from ``parameters`` on the samples ``indices``.

        ``seed`` is (seed of the run, client, round).
        """
        self.model.check(parameters)
        if len(indices) == 0:
            return LocalResult({k: v.copy() for k, v in parameters.items()}, loss=0.0, steps=0)
        images, labels = self._batches(indices, seed=seed, steps=steps, batch=batch)
        if self.model.native is not None:
            return self._train_natively(parameters, images, labels, lr=lr, steps=steps)
        self.model.load(parameters)
        module, weights = self.model.module.train(), self.model.parameters
        size = len(images) // steps
        losses = []
        for x, y in zip(images.split(size), labels.split(size), strict=True):
            loss = functional.cross_entropy(module(x), y)
            gradients = torch.autograd.grad(loss, weights)
            with torch.no_grad():
                torch._foreach_add_(weights, gradients, alpha=-lr)
            losses.append(loss.detach())
        mean = float(torch.stack(losses).mean())
        return LocalResult(self.model.dump(), loss=mean, steps=len(losses))

    def _train_natively(
        self,
        parameters: Mapping[str, np.ndarray],
        images: torch.Tensor,
        labels: torch.Tensor,
        *,
        lr: float,
        steps: int,
    ) -> LocalResult:
        """Run all steps in one call."""
        native, batch = self.model.native, len(images) // steps
        assert native is not None
        dropout = self.model.module.train().dropout
        trained, losses = native.train(
            {name: np.ascontiguousarray(v, np.float32) for name, v in parameters.items()},
            images.permute(0, 2, 3, 1).view(steps, batch, *IMAGE_SHAPE).numpy(),
            labels.view(steps, batch).numpy(),
            lr,
            draw_masks(dropout, native.inputs, steps=steps, batch=batch),
        )
        return LocalResult(trained, loss=float(losses.mean()), steps=steps)

    def _batches(
        self, indices: NDArray[np.int64], *, seed: tuple[int, int, int], steps: int, batch: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the images and labels of all steps, one step after the other."""
        rng = np.random.default_rng([_BATCHES, *seed])
        positions = batch_positions(len(indices), steps=steps, batch=batch, rng=rng)
        size = positions.shape[1]
        chosen = indices[positions.ravel()]
        draws = np.random.SeedSequence([_CHANGES, *seed]).generate_state(2, np.uint64)
        self._changes.manual_seed(int(draws[0] >> 1))
        self._dropout.manual_seed(int(draws[1] >> 1))
        device = self.model.device
        images = augment(
            torch.from_numpy(self._train.images[chosen]).to(device),
            self.spec,
            self._normalise,
            self._changes,
            share=size if self._per_batch else 1,
        )
        return images, torch.from_numpy(self._train.labels[chosen]).to(device)
