"""Local training: I steps of plain SGD on one client's data, by a trainer that stays resident."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from simulations.nodes.batches import batch_positions, continued_positions
from simulations.nodes.kernel.choose import draw_masks
from simulations.nodes.kernel.step import NativeStep
from simulations.nodes.replay import ReplayedStep
from simulations.nodes.resident import Parameters, ResidentModel, configure_worker_process
from simulations.tasks import Part, Task
from simulations.tasks.images.models import SeededDropout

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


def default_generators(device: torch.device) -> list[torch.Generator]:
    """Return the generators that layers draw from which were given none."""
    if device.type != "cuda":
        return [torch.default_generator]
    torch.cuda.init()  # type: ignore[no-untyped-call]
    return [torch.default_generator, torch.cuda.default_generators[device.index or 0]]


class LocalTrainer:
    """Trains one client after the other with one resident network on one resident data set.

    Parameters
    ----------
    task : Task
        Model, loss and random changes.
    train : Part
        Its training set.
    device : str
        ``cpu``, ``cuda``, ``cuda:N`` or ``auto``.
    augment_per_batch : bool
        Draw one crop and flip per mini-batch, as the paper's authors did, instead of per image.
    kernel : str
        ``native``, ``torch``, or ``auto``, which is native where that is possible.
    replay : bool or None
        Record the step once and replay it, see `simulations.nodes.replay`; None does so on a GPU.
    """

    def __init__(
        self,
        task: Task,
        train: Part,
        *,
        device: str = "cpu",
        augment_per_batch: bool = False,
        kernel: str = "auto",
        model: ResidentModel | None = None,
        replay: bool | None = None,
    ) -> None:
        configure_worker_process()
        self.task = task
        self.model = model or ResidentModel(task, device=device, kernel=kernel)
        place = self.model.device
        self._per_batch = augment_per_batch
        # On a GPU the whole data set lies there, and random changes are drawn there as well.
        self._data: tuple[torch.Tensor, torch.Tensor] | None = None
        if place.type == "cuda":
            pair = (train.inputs, train.targets)
            inputs, targets = (torch.from_numpy(np.array(value)).to(place) for value in pair)
            self._data = (inputs, targets)
        self._train = train
        self._changes = torch.Generator(place)
        self._dropout = torch.Generator(place)
        self._default = default_generators(place)
        for layer in self.model.module.modules():
            if isinstance(layer, SeededDropout):
                layer.generator = self._dropout
        self._replayed: ReplayedStep | None = None
        if replay or (replay is None and place.type == "cuda"):
            self._replayed = ReplayedStep(task, self.model.module.train(), self._dropout)

    def train(
        self,
        parameters: Mapping[str, np.ndarray],
        indices: NDArray[np.int64],
        *,
        lr: float,
        seed: tuple[int, int, int],
        steps: int = 5,
        batch: int = 16,
        turn: int | None = None,
    ) -> LocalResult:
        """Run ``steps`` steps of size ``lr`` from ``parameters`` on the samples ``indices``.

        ``seed`` is (seed of the run, client, round). With ``turn``, the number of turns that the
        client has had, batches continue where those ended.
        """
        self.model.check(parameters)
        if len(indices) == 0:
            return LocalResult({k: v.copy() for k, v in parameters.items()}, loss=0.0, steps=0)
        inputs, targets = self.batches(indices, seed, steps, batch, turn)
        if self.model.native is not None:
            return self._train_natively(self.model.native, parameters, inputs, targets, lr)
        self.model.load(parameters)
        module = self._training()
        weights: list[torch.Tensor] = list(self.model.parameters)
        losses = []
        for x, y in zip(inputs, targets, strict=True):
            if self._replayed is not None:
                losses.append(self._replayed(x, y, lr))
                continue
            loss = self.task.loss(module(x), y)
            gradients = torch.autograd.grad(loss, weights)
            with torch.no_grad():
                torch._foreach_add_(weights, gradients, alpha=-lr)
            losses.append(loss.detach())
        mean = float(torch.stack(losses).mean())
        return LocalResult(self.model.dump(), loss=mean, steps=len(losses))

    def _train_natively(
        self,
        native: NativeStep,
        parameters: Mapping[str, np.ndarray],
        images: torch.Tensor,
        labels: torch.Tensor,
        lr: float,
    ) -> LocalResult:
        """Run all steps in one call."""
        dropout = self._training().dropout
        assert isinstance(dropout, SeededDropout)
        trained, losses = native.train(
            {name: np.ascontiguousarray(v, np.float32) for name, v in parameters.items()},
            images.permute(0, 1, 3, 4, 2).contiguous().numpy(),
            labels.numpy(),
            lr,
            draw_masks(dropout, native.inputs, steps=len(images), batch=len(images[0])),
        )
        return LocalResult(trained, loss=float(losses.mean()), steps=len(losses))

    def _training(self) -> nn.Module:
        """Return the network in the mode for training, which an evaluation has changed."""
        module = self.model.module
        return module if module.training else module.train()

    def batches(
        self,
        indices: NDArray[np.int64],
        seed: tuple[int, int, int],
        steps: int,
        batch: int,
        turn: int | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the inputs and targets of each step, all steps prepared at once."""
        count: dict[str, int] = {"steps": steps, "batch": batch}
        if turn is None:
            rng = np.random.default_rng([_BATCHES, *seed])
            positions = batch_positions(len(indices), **count, rng=rng)
        else:
            first = turn * steps
            positions = continued_positions(len(indices), **count, first=first, seed=seed[:2])
        size = positions.shape[1]
        chosen = indices[positions.ravel()]
        draws = np.random.SeedSequence([_CHANGES, *seed]).generate_state(2, np.uint64)
        self._changes.manual_seed(int(draws[0] >> 1))
        self._dropout.manual_seed(int(draws[1] >> 1))
        # For layers of a task's own model that draw from torch's generator, as its dropout does.
        # `torch.manual_seed` would also write down the stack for every kind of device there is not.
        for generator in self._default:
            generator.manual_seed(int(draws[1] >> 1))
        if self._data is None:
            pair = (self._train.inputs[chosen], self._train.targets[chosen])
            raw, targets = (torch.from_numpy(value).to(self.model.device) for value in pair)
        else:
            where = torch.from_numpy(chosen).to(self.model.device)
            raw, targets = (value[where] for value in self._data)
        inputs = self.task.augment(raw, self._changes, share=size if self._per_batch else 1)
        shape = positions.shape
        return inputs.view(*shape, *inputs.shape[1:]), targets.view(*shape, *targets.shape[1:])
