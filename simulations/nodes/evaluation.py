"""What an evaluation gives, in sums that shards add up to the whole, without any torch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulations.tasks.split import Split


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


def client_means(split: Split, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Average a value per training sample over each client's samples; NaN for an empty client."""
    sums = np.concatenate([[0.0], np.cumsum(values[split.indices], dtype=np.float64)])
    totals = np.diff(sums[split.offsets])
    return np.where(split.sizes > 0, totals / np.maximum(split.sizes, 1), np.nan)


def client_test_accuracy(split: Split, test: Evaluation) -> NDArray[np.float64]:
    """Return each client's test accuracy: that of the classes, weighted by its class shares."""
    return split.class_shares @ test.class_accuracy
