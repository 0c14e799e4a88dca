"""Loss and accuracy of a model over a range of samples, in sums that shards add up to the whole."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from simulations.nodes.resident import ResidentModel, settle_worker
from simulations.tasks.arrays import Part
from simulations.tasks.augmentation import Normalisation
from simulations.tasks.spec import DatasetSpec
from simulations.tasks.split import Split

_BATCH = 64
"""Images at once: the outputs of the first convolution, 128 kB per image, then stay in the cache,
which is 1.5 times faster than hundreds at once."""


@dataclass(frozen=True)
class Evaluation:
    """Sums over samples: the loss, and per class the correct answers and the samples."""

    loss_sum: float
    correct: NDArray[np.int64]
    counts: NDArray[np.int64]

    def __add__(self, other: "Evaluation") -> "Evaluation":
        return Evaluation(
            self.loss_sum + other.loss_sum,
            self.correct + other.correct,
            self.counts + other.counts,
        )

    @property
    def loss(self) -> float:
        """Mean loss over the samples."""
        return self.loss_sum / int(self.counts.sum())

    @property
    def accuracy(self) -> float:
        """Share of correct answers."""
        return int(self.correct.sum()) / int(self.counts.sum())

    @property
    def class_accuracy(self) -> NDArray[np.float64]:
        """Share of correct answers per class; NaN for a class without samples."""
        return np.where(self.counts > 0, self.correct / np.maximum(self.counts, 1), np.nan)


@dataclass(frozen=True)
class SampleResults:
    """Loss and correctness of each sample of a range, in its order."""

    labels: NDArray[np.int64]
    losses: NDArray[np.float64]
    correct: NDArray[np.bool_]

    def total(self, num_classes: int) -> Evaluation:
        """Sum over the samples."""
        return Evaluation(
            loss_sum=float(self.losses.sum()),
            correct=np.bincount(self.labels[self.correct], minlength=num_classes),
            counts=np.bincount(self.labels, minlength=num_classes),
        )


class Evaluator:
    """Evaluates parameters with a resident network: no augmentation, dropout off."""

    def __init__(
        self,
        spec: DatasetSpec,
        *,
        device: str = "cpu",
        kernel: str = "auto",
        model: ResidentModel | None = None,
    ) -> None:
        settle_worker()
        self.spec = spec
        self.model = model or ResidentModel(spec, device=device, kernel=kernel)
        self._normalise = Normalisation(spec, self.model.device)

    @torch.inference_mode()
    def samples(
        self,
        parameters: Mapping[str, np.ndarray],
        part: Part,
        start: int = 0,
        stop: int | None = None,
    ) -> SampleResults:
        """Evaluate each of the samples ``start`` to ``stop`` of a part."""
        self.model.load(parameters)
        module, device, native = self.model.module.eval(), self.model.device, self.model.native
        current = {} if native is None else self.model.dump()
        labels = part.labels[start:stop]
        losses = np.empty(len(labels), dtype=np.float64)
        correct = np.empty(len(labels), dtype=np.bool_)
        for first in range(0, len(labels), _BATCH):
            here = slice(first, min(first + _BATCH, len(labels)))
            pixels = np.array(part.images[start + here.start : start + here.stop])
            images = torch.from_numpy(pixels).to(device)
            answers = torch.from_numpy(labels[here]).to(device)
            normalised = self._normalise(images)
            if native is not None:
                losses[here], correct[here] = native.evaluate(
                    current, normalised.permute(0, 2, 3, 1).numpy(), answers.numpy()
                )
                continue
            logits = module(normalised)
            losses[here] = functional.cross_entropy(logits, answers, reduction="none").cpu()
            correct[here] = (logits.argmax(1) == answers).cpu()
        return SampleResults(labels, losses, correct)

    def evaluate(
        self,
        parameters: Mapping[str, np.ndarray],
        part: Part,
        start: int = 0,
        stop: int | None = None,
    ) -> Evaluation:
        """Evaluate the samples ``start`` to ``stop`` of a part."""
        return self.samples(parameters, part, start, stop).total(self.spec.num_classes)


def client_means(split: Split, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average a value per training sample over each client's samples; NaN for an empty client."""
    sums = np.concatenate([[0.0], np.cumsum(values[split.indices], dtype=np.float64)])
    totals = np.diff(sums[split.offsets])
    return np.where(split.sizes > 0, totals / np.maximum(split.sizes, 1), np.nan)


def client_test_accuracy(split: Split, test: Evaluation) -> NDArray[np.float64]:
    """Return each client's test accuracy: that of the classes, weighted by its class shares."""
    return split.class_shares @ test.class_accuracy
