"""How much a benchmark measures, and on which data."""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from simulations.config import RunConfig
from simulations.tasks.arrays import PARTS, staged
from simulations.tasks.cifar10 import CIFAR10
from simulations.tasks.images.task import IMAGE_SHAPE, part_files
from simulations.tasks.synthetic import Synthetic

WARM_UP = 2
"""Rounds that are not counted: workers open their data in the first, caches fill in the second."""


@dataclass(frozen=True)
class BenchSettings:
    """The sizes of all rows."""

    config: RunConfig  # of rows 1 to 4 and 6; its rounds include those to warm up
    scale: RunConfig  # of row 5, which measures it at its own and at `many` clients
    peers: RunConfig  # of the rows that compare with other frameworks
    many: int = 100_000
    most: int = 1_000_000  # clients, for the memory of the server
    crowd: int = 1_000  # participants of a round
    repetitions: int = 2  # of every side of a comparison
    secure_clients: int = 25
    secure_dropped: int = 2
    secure_cohorts: tuple[int, ...] = (25, 100, 300, 1000)
    weights: int = 1_000_000  # advanced at once
    environments: Path | None = None  # directory of the peers' environments; None leaves them out
    authors: Path | None = None  # folder of the authors' program
    workers: int = field(default_factory=lambda: os.cpu_count() or 1)

    @property
    def expected(self) -> float:
        """Participants that are expected in a round of row 5."""
        return self.scale.mean_participation * self.scale.clients

    def at(self, clients: int, expected: float | None = None) -> RunConfig:
        """Return the run of row 5 with so many clients, of which as many are expected to come."""
        mean = (expected or self.expected) / clients
        few = self.scale
        enough = clients <= few.task.count("train")
        data = few.dataset if enough else blank_images(clients, Path(few.data_dir), few.seed)
        return replace(few, clients=clients, mean_participation=mean, dataset=data)


def full(data: Path, scratch: Path) -> BenchSettings:
    """Return the sizes of the published numbers; what is made for them goes to `scratch`."""
    # Methods with a memory write new blocks in the first turns of a client, which take longer.
    rounds = WARM_UP + 80
    config = RunConfig(dataset="cifar10", data_dir=str(data), **_rounds(rounds, rounds))
    few = WARM_UP + 8
    return BenchSettings(
        config=config,
        peers=replace(config, num_server_rounds=few, evaluate_every=few, checkpoint_every=few),
        # Even clients: each of 100,000 has a sample or two, and comes as often as any other.
        scale=RunConfig(
            dataset="synthetic:train=200000:test=1000", alpha_participation=1e3, batch_size=1,
            min_participation=0.0, local_steps=50, data_dir=str(scratch),
            **_rounds(few + 4, few + 4),
        ),
    )  # fmt: skip


def blank_images(count: int, data: Path, seed: int) -> str:
    """Write so many images without anything on them, which take up no space, as a synthetic set.

    Returns its name. A round takes as long on them, and so does everything before it.
    """
    task, rng = Synthetic(train=count, test=1_000), np.random.default_rng(seed)
    folder = task.folder(data, seed=seed)
    if not folder.exists():
        with staged(folder) as staging:
            for part in PARTS:
                images, labels = part_files(staging, part)
                shape = (task.count(part), *IMAGE_SHAPE)
                np.lib.format.open_memmap(images, "w+", np.uint8, shape).flush()
                np.save(labels, rng.permutation(shape[0]) % task.num_classes)
    return f"synthetic:train={count}:test=1000"


def quick(data: Path) -> BenchSettings:
    """Return the smallest sizes that produce every row."""
    config = RunConfig(
        clients=6, mean_participation=0.5, min_participation=0.3, local_steps=1, batch_size=4,
        dataset="synthetic:train=120:test=20", data_dir=str(data), **_rounds(WARM_UP + 1, 9),
    )  # fmt: skip
    scale = replace(config, min_participation=0.0, alpha_participation=1e3)
    return BenchSettings(
        config, scale, config, many=60, most=90, crowd=6, repetitions=1, secure_clients=4,
        secure_dropped=1, secure_cohorts=(4, 6), weights=1_000, workers=2,
    )  # fmt: skip


def _rounds(rounds: int, every: int) -> dict[str, Any]:
    periods = {"evaluate_every": every, "checkpoint_every": every}
    return {"num_server_rounds": rounds, "device": "cpu", **periods}


def cifar10_or_random(data: Path, scratch: Path) -> tuple[Path, str]:
    """Return a data directory with CIFAR-10's array files, and what they hold.

    That is CIFAR-10 itself where it is, and random images of its shape elsewhere.
    """
    task = CIFAR10()
    if (data / task.name / "test-labels.npy").is_file():
        return data, task.title
    rng = np.random.default_rng(1)
    with staged(scratch / task.name) as staging:
        for part in PARTS:
            images, labels = part_files(staging, part)
            shape = (task.count(part), *IMAGE_SHAPE)
            np.save(images, rng.integers(256, size=shape, dtype=np.uint8))
            np.save(labels, rng.permutation(shape[0]) % task.num_classes)
    return scratch, f"random images of {task.title}'s shape"
