r"""The program of the paper's authors on SVHN, to see what it reaches here.

    python -m simulations.report.authors_program CLONE DATA_DIR OUT -weighting fedvarp \
        -participation cyclic-100 -lr 0.1 -seeds 1,2,3

runs `main.py` of a clone of their repository (github.com/IBM/fedau) as it is, with its own options:
their draw, batches, crops, arithmetic of rounds. Only the steps and the evaluation of their network
are made by our native code, which takes a fraction of the time, and the model is evaluated every
200 rounds until the last 200. What they write about it, and a table of that, go to OUT.
"""

import csv
import re
import runpy
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simulations.config import ConfigError
from simulations.launch.runner import check_writable
from simulations.nodes.kernel.build import KernelUnavailable
from simulations.nodes.kernel.step import NativeStep
from simulations.report.table import Spread, Table
from simulations.tasks import DataError
from simulations.tasks.arrays import load_array
from simulations.tasks.images.task import part_files
from simulations.tasks.svhn import SVHN

PLACES = 3
"""Arguments that are not their program's: CLONE, DATA_DIR and OUT."""
LATE = 1_000
"""Iterations at the end in which the model is evaluated as often as their program does it."""
_IMAGES = 2_048
"""Are evaluated at a time."""
_SAME = re.compile(r"^run_(SVHN_ModelCNNSvhn_)?|_dataAlpha[\d.]+_partAlpha[\d.]+")
"""What all names of files have that their program writes here."""


def main() -> None:
    """Run their program and write the table."""
    try:
        _run()
    except (ConfigError, DataError, KernelUnavailable) as error:
        raise SystemExit(str(error)) from None


def _run() -> None:
    if len(sys.argv) <= PLACES:
        raise ConfigError(f"CLONE, DATA_DIR and OUT are {sys.argv[1:]}, but must be three folders.")
    clone, data, out = map(Path, sys.argv[1 : 1 + PLACES])
    if not (clone / "main.py").is_file():
        raise ConfigError(f"CLONE is {str(clone)!r}, but must be a clone of github.com/IBM/fedau.")
    check_writable("OUT", out)
    out.mkdir(parents=True, exist_ok=True)
    own = ["-data", "svhn", "-gpu", "0", "-save-checkpoint", "0", "-save-final-model", "0"]
    sys.argv = ["main.py", *own, "-out", str(out / "run"), *sys.argv[1 + PLACES :]]
    sys.path.insert(0, str(clone))
    torch.set_num_threads(1)
    _replace_parts(SVHN().folder(data))
    runpy.run_path(str(clone / "main.py"), run_name="__main__")
    table = table_of(out).markdown()
    (out / "table.md").write_text(table, encoding="utf-8")
    print(table)


def table_of(directory: Path) -> Table:
    """Return what their files in a directory say of the last rounds, over seeds and of each."""
    header = ["method, participation, step sizes", "train accuracy", "test accuracy", "seeds"]
    table = Table("authors-program", "The authors' program: mean of the last rounds", header)
    for path in sorted(directory.glob("*.csv")):
        with path.open(encoding="utf-8") as file:
            # Each time that it runs it adds to its file, the header as well.
            lines = [row for row in csv.DictReader(file) if row["sim_seed"] != "sim_seed"]
        rows = [{key: float(value) for key, value in row.items()} for row in lines]
        last = max(row["num_iter"] for row in rows)
        late = [row for row in rows if row["num_iter"] > last - LATE]
        seeds = sorted({row["sim_seed"] for row in late})
        means = {
            key: [np.mean([r[key] for r in late if r["sim_seed"] == seed]) for seed in seeds]
            for key in ("training_accuracy", "test_accuracy")
        }
        for chosen in (range(len(seeds)), *((i,) for i in range(len(seeds)) if len(seeds) > 1)):
            spreads = [Spread.of([found[i] for i in chosen]) for found in means.values()]
            named = ", ".join(f"{seeds[i]:.0f}" for i in chosen)
            table.rows.append([_SAME.sub("", path.stem), *spreads, named])
    return table


def _replace_parts(folder: Path) -> None:
    """Let their program find the data where ours does, and train and evaluate with our kernel."""
    from simulations.tasks.images.vision import datasets  # noqa: PLC0415 -- slow

    class Arrays:
        """What torchvision's data set would be, from the array files."""

        def __init__(self, root: str, split: str, transform: Any, target: Any, _: bool) -> None:
            images, labels = part_files(folder, split)
            self.data = np.array(load_array(images).transpose(0, 3, 1, 2))
            self.labels = np.array(load_array(labels))
            self.root, self.transform, self.target_transform = root, transform, target

        def __len__(self) -> int:
            return len(self.labels)

    datasets.SVHN = Arrays
    # Modules of their program.
    from config import max_iter  # type: ignore[import-not-found]  # noqa: PLC0415
    from model.model import Model  # type: ignore[import-not-found]  # noqa: PLC0415
    from statistic.collect_stat import (  # type: ignore[import-not-found]  # noqa: PLC0415
        CollectStatistics,
    )

    make, collect = Model.__init__, CollectStatistics.collect_stat_eval

    def made(self: Any, *given: Any, **options: Any) -> None:
        make(self, *given, **options)
        self.model = _Network(self.model, lambda: float(self.learning_rate))
        self.optimizer = SimpleNamespace(zero_grad=lambda: None, step=self.model.step)
        self.loss_fn = self.model.loss

    def accuracy(self: Any, loader: Any, weights: Any, *_: Any, **__: Any) -> tuple[float, float]:
        self.assign_weight(weights)
        found: tuple[float, float] = self.model.evaluate(loader.dataset)
        return found

    def late(self: Any, seed: int, iteration: int, *given: Any) -> None:
        if iteration > max_iter - LATE or iteration % LATE == 0:
            collect(self, seed, iteration, *given)

    Model.__init__, Model.accuracy, CollectStatistics.collect_stat_eval = made, accuracy, late


class _Network:
    """Their network, with parameters for the native step.

    Their loop calls it, the loss of what it returns, that one's `backward`, then the optimiser.
    """

    def __init__(self, module: nn.Module, lr: Callable[[], float]) -> None:
        state = module.state_dict()
        widths = [v.shape[0] for v in state.values() if v.ndim == 2]
        self._native, self._lr = NativeStep(widths), lr
        # Layers are in the same order, under other names.
        self._names = dict(zip(state, self._native.shapes, strict=True))
        self._batch: tuple[NDArray[np.float32], NDArray[np.int64]] | None = None
        self.load_state_dict(state)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the parameters."""
        self._values = {own: state[key].numpy().copy() for key, own in self._names.items()}

    def state_dict(self) -> dict[str, Tensor]:
        """Return the parameters."""
        return {key: torch.from_numpy(self._values[own]) for key, own in self._names.items()}

    def train(self) -> None:
        """Do nothing: there is no dropout."""

    def __call__(self, images: Tensor) -> Tensor:
        """Return the images, of which the step makes everything else."""
        return images

    def loss(self, images: Tensor, labels: Tensor) -> Any:
        """Keep the batch for the step."""
        self._batch = _channels_last(images), labels.numpy()
        return SimpleNamespace(backward=lambda: None)

    def step(self) -> None:
        """Run a step of SGD."""
        assert self._batch is not None
        images, labels = self._batch
        self._values, _ = self._native.train(self._values, images[None], labels[None], self._lr())

    def evaluate(self, data: Any) -> tuple[float, float]:
        """Return mean loss and accuracy."""
        losses, right = 0.0, 0
        images, labels = data.data_transformed, data.targets_transformed
        for part in (slice(i, i + _IMAGES) for i in range(0, len(labels), _IMAGES)):
            batch = _channels_last(images[part]), labels[part].numpy()
            loss, correct = self._native.evaluate(self._values, *batch)
            losses, right = losses + float(loss.sum(dtype=np.float64)), right + int(correct.sum())
        return losses / len(labels), right / len(labels)


def _channels_last(images: Tensor) -> NDArray[np.float32]:
    return np.ascontiguousarray(images.numpy().transpose(0, 2, 3, 1))


if __name__ == "__main__":
    main()
