"""Loss and accuracy of a model over a range of samples, in sums that shards add up to the whole."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fedau_flwr.arrays import Arrays
from simulations.nodes.resident import ResidentModel, configure_worker_process
from simulations.tasks import Part, Task
from simulations.tasks.split import Split

_BATCH = 64
"""Images at once: the outputs of the first convolution, 128 kB per image, then stay in the cache,
which is 1.5 times faster than hundreds at once."""


@dataclass(frozen=True)
class Evaluation:
    """Sums over samples: the loss, and per class the scores and the samples.

    A score is 1 for a correct answer and 0 for another; of a regression, which is one class, it is
    what the task says.
    """

    loss_sum: float
    scores: NDArray[np.float64]
    counts: NDArray[np.int64]

    def __add__(self, other: "Evaluation") -> "Evaluation":
        scores, counts = self.scores + other.scores, self.counts + other.counts
        return Evaluation(self.loss_sum + other.loss_sum, scores, counts)

    @property
    def loss(self) -> float:
        """Mean loss over the samples."""
        return self.loss_sum / int(self.counts.sum())

    @property
    def accuracy(self) -> float:
        """Mean score: the share of correct answers."""
        return float(self.scores.sum()) / int(self.counts.sum())

    @property
    def class_accuracy(self) -> NDArray[np.float64]:
        """Mean score per class; NaN for a class without samples."""
        return np.where(self.counts > 0, self.scores / np.maximum(self.counts, 1), np.nan)


@dataclass(frozen=True)
class SampleResults:
    """Class, loss and score of each sample of a range, in its order."""

    classes: NDArray[np.int64]
    losses: NDArray[np.float64]
    scores: NDArray[np.float64]

    def total(self, num_classes: int) -> Evaluation:
        """Sum over the samples."""
        return Evaluation(
            loss_sum=float(self.losses.sum()),
            scores=np.bincount(self.classes, self.scores, num_classes).astype(np.float64),
            counts=np.bincount(self.classes, minlength=num_classes),
        )


class Evaluator:
    """Evaluates parameters with a resident network: no augmentation, dropout off."""

    def __init__(
        self,
        task: Task,
        *,
        device: str = "cpu",
        kernel: str = "auto",
        model: ResidentModel | None = None,
    ) -> None:
        configure_worker_process()
        self.task = task
        self.model = model or ResidentModel(task, device=device, kernel=kernel)

    @torch.inference_mode()
    def samples(
        self, parameters: Arrays, part: Part, start: int = 0, stop: int | None = None
    ) -> SampleResults:
        """Evaluate each of the samples ``start`` to ``stop`` of a part."""
        self.model.load(parameters)
        module, device, native = self.model.module.eval(), self.model.device, self.model.native
        targets = part.targets[start:stop]
        losses, scores = (np.empty(len(targets), dtype=np.float64) for _ in range(2))
        for first in range(0, len(targets), _BATCH):
            here = slice(first, min(first + _BATCH, len(targets)))
            inputs = np.array(part.inputs[start + here.start : start + here.stop])
            answers = torch.from_numpy(np.array(targets[here])).to(device)
            taken = self.task.transform(torch.from_numpy(inputs).to(device))
            if native is not None:
                images = taken.permute(0, 2, 3, 1).contiguous().numpy()
                losses[here], scores[here] = native.evaluate(parameters, images, answers.numpy())
                continue
            outputs = module(taken)
            losses[here] = self.task.loss(outputs, answers, "none").cpu()
            scores[here] = self.task.score(outputs, answers).cpu()
        return SampleResults(self.task.groups(targets), losses, scores)

    def evaluate(
        self, parameters: Arrays, part: Part, start: int = 0, stop: int | None = None
    ) -> Evaluation:
        """Evaluate the samples ``start`` to ``stop`` of a part."""
        return self.samples(parameters, part, start, stop).total(self.task.num_groups)


def client_means(split: Split, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average a value per training sample over each client's samples; NaN for an empty client."""
    sums = np.concatenate([[0.0], np.cumsum(values[split.indices], dtype=np.float64)])
    totals = np.diff(sums[split.offsets])
    return np.where(split.sizes > 0, totals / np.maximum(split.sizes, 1), np.nan)


def client_test_accuracy(split: Split, test: Evaluation) -> NDArray[np.float64]:
    """Return each client's test accuracy: that of the classes, weighted by its class shares."""
    return split.class_shares @ test.class_accuracy
