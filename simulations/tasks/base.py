"""What a task is: data, model, loss and metrics, and the settings of its experiments."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from simulations.registry import Entry
from simulations.tasks.arrays import Arrays, DataError, Part

if TYPE_CHECKING:
    # torch takes seconds, which commands that train nothing do not wait for.
    import torch
    from torch import Tensor, nn


@dataclass(frozen=True)
class StepSize:
    """Local step size γ and global step size η (``None``: the method has none)."""

    local: float
    server: float | None = 1.0


@dataclass(frozen=True)
class Task(Entry):
    """Data, model, loss and metrics of a training.

    A subclass is a frozen dataclass whose fields are the task's parameters; it overrides at least
    `train_count`, `test_count`, `open` and `model`. With `classes` it is a classification: targets
    are class numbers, the loss is cross entropy and the metric accuracy. Without, it is a
    regression: the loss is the squared and the metric the absolute error.
    """

    key = "dataset"

    title: ClassVar[str] = ""
    """Its name in tables and plots; the short one by default."""

    classes: ClassVar[tuple[str, ...]] = ()
    """The names of the classes; none for a regression."""

    rounds: ClassVar[int] = 200
    """Rounds of an experiment that does not say."""

    step_sizes: ClassVar[Mapping[str, StepSize]] = {}
    """By the name of a method, for methods that have none for this task."""

    step_size: ClassVar[StepSize | None] = None
    """For all other methods."""

    halve_local_at: ClassVar[tuple[int, ...]] = ()
    """The rounds t from which on γ is halved once more."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "title" not in cls.__dict__:
            cls.title = cls.name

    @property
    @abstractmethod
    def train_count(self) -> int:
        """Number of training samples."""

    @property
    @abstractmethod
    def test_count(self) -> int:
        """Number of test samples."""

    @abstractmethod
    def open(self, data_dir: Path, *, seed: int) -> Arrays:
        """Return training and test set, in memory or mapped from files.

        `data_dir` has prepared data sets, the run's seed is for data that are drawn.
        """

    @abstractmethod
    def model(self) -> nn.Module:
        """Return a new model; its weights come from torch's generator, which is seeded before."""

    def transform(self, inputs: Tensor) -> Tensor:
        """Return what the model takes, from samples as `open` has them."""
        import torch  # noqa: PLC0415

        return inputs.to(torch.get_default_dtype())

    def augment(self, inputs: Tensor, generator: torch.Generator, *, share: int) -> Tensor:
        """Return what the model takes while training, with random changes if there are any.

        All draws come from the generator, so that any round can be repeated; `share` consecutive
        samples have the same: 1, or the mini-batch size.
        """
        return self.transform(inputs)

    def loss(self, outputs: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
        """Return the loss: the mean over samples or, with the reduction "none", one per sample."""
        from torch.nn import functional  # noqa: PLC0415

        if self.classes:
            return functional.cross_entropy(outputs, targets, reduction=reduction)
        losses = (outputs.reshape(targets.shape) - targets).square().reshape(len(targets), -1)
        return losses.mean() if reduction == "mean" else losses.mean(1)

    @property
    def metric(self) -> str:
        """What `score` measures, in one word or with underscores between several."""
        return "accuracy" if self.classes else "absolute_error"

    @property
    def percent(self) -> bool:
        """Whether the metric is a share, the larger the better; else it is an error."""
        return bool(self.classes)

    def score(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the metric of each sample; that of a set is their mean."""
        if self.classes:
            return outputs.argmax(1) == targets
        return (outputs.reshape(targets.shape) - targets).abs().reshape(len(targets), -1).mean(1)

    def split(
        self, targets: NDArray[Any], *, clients: int, seed: int
    ) -> Sequence[NDArray[np.int64]] | None:
        """Return the indices of each client's training samples, if the task has its own split.

        Otherwise a classification is split by Dirichlet draws, a regression evenly at random.
        """
        return None

    def open_own(self, folder: Path, part: str) -> Part | None:
        """Return a part of a node's own data, if `folder` holds it: samples like the task's."""
        return None

    def prepare(self, data_dir: Path, *, source: Path | None = None, seed: int = 1) -> Path:
        """Write the files that `open` reads, for `fedau data prepare`."""
        raise DataError(f"dataset is {self.name!r}, but must be one that needs preparation.")

    @property
    def num_classes(self) -> int:
        """Number of classes C; 0 for a regression."""
        return len(self.classes)

    @property
    def num_groups(self) -> int:
        """Groups of samples whose metrics are kept apart: the classes, or one of all samples."""
        return max(1, self.num_classes)

    def groups(self, targets: NDArray[Any]) -> NDArray[np.int64]:
        """Return the group of each sample."""
        return targets if self.classes else np.zeros(len(targets), np.int64)

    def count(self, part: str) -> int:
        """Return the number of samples of the part ``train`` or ``test``."""
        return self.train_count if part == "train" else self.test_count

    def decay(self, t: int) -> float:
        """Return the factor by which γ has shrunk in round t = 0, 1, …."""
        return 0.5 ** sum(t >= milestone for milestone in self.halve_local_at)
