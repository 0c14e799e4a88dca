"""Data of CIFAR-10's size: CIFAR-10 itself where it is, random images of its shape elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from simulations.tasks.arrays import PARTS, staged
from simulations.tasks.cifar10 import CIFAR10
from simulations.tasks.images.task import IMAGE_SHAPE


def cifar10_or_random(data: Path, scratch: Path) -> tuple[Path, str]:
    """Return a data directory with CIFAR-10's array files, and what they hold."""
    task = CIFAR10()
    if (data / task.name / "test-labels.npy").is_file():
        return data, task.title
    rng = np.random.default_rng(1)
    with staged(scratch / task.name) as staging:
        for part in PARTS:
            count = task.count(part)
            images = rng.integers(256, size=(count, *IMAGE_SHAPE), dtype=np.uint8)
            np.save(staging / f"{part}-images.npy", images)
            np.save(staging / f"{part}-labels.npy", rng.permutation(count) % task.num_classes)
    return scratch, f"random images of {task.title}'s shape"
