"""How much a benchmark measures."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from simulations.config import RunConfig

WARM_UP = 2
"""Rounds that are not counted: workers open their data in the first, caches fill in the second."""


@dataclass(frozen=True)
class BenchSettings:
    """The sizes of all rows.

    Parameters
    ----------
    config : RunConfig
        The run that rows 1 to 4 and 6 measure; its rounds include those to warm up.
    scale : RunConfig
        The run that row 5 measures at its own and at `many` clients.
    many : int
        The large number of clients.
    repetitions : int
        How often every side of a comparison runs.
    secure_clients, secure_dropped : int
        Cohort of the secure row, and how many of it are lost.
    weights : int
        How many weights are advanced at once.
    workers : int
        Processes that train: one per core.
    """

    config: RunConfig
    scale: RunConfig
    many: int = 100_000
    repetitions: int = 2
    secure_clients: int = 25
    secure_dropped: int = 2
    weights: int = 1_000_000
    workers: int = field(default_factory=lambda: os.cpu_count() or 1)

    def at(self, clients: int) -> RunConfig:
        """Return the run of row 5 with so many clients, of which as many are expected to come."""
        expected = self.scale.mean_participation * self.scale.clients
        return replace(self.scale, clients=clients, mean_participation=expected / clients)


def full(data: Path, scratch: Path) -> BenchSettings:
    """Return the sizes of the published numbers; what is made for them goes to `scratch`."""
    # A run evaluates after its last round and every ten rounds before.
    rounds = WARM_UP + 8
    return BenchSettings(
        config=RunConfig(
            dataset="cifar10",
            num_server_rounds=rounds,
            evaluate_every=rounds,
            checkpoint_every=rounds,
            data_dir=str(data),
            device="cpu",
        ),
        scale=RunConfig(
            dataset="synthetic:train=200000:test=1000",
            num_server_rounds=rounds + 4,
            evaluate_every=rounds + 4,
            checkpoint_every=rounds + 4,
            # Even clients: each of 100,000 has a sample or two, and comes as often as any other.
            alpha_participation=1e3,
            min_participation=0.0,
            batch_size=1,
            local_steps=50,
            data_dir=str(scratch),
            device="cpu",
        ),
    )


def quick(data: Path) -> BenchSettings:
    """Return the smallest sizes that produce every row."""
    config = RunConfig(
        clients=6,
        num_server_rounds=WARM_UP + 1,
        evaluate_every=9,
        checkpoint_every=9,
        mean_participation=0.5,
        min_participation=0.3,
        dataset="synthetic:train=120:test=20",
        local_steps=1,
        batch_size=4,
        data_dir=str(data),
        device="cpu",
    )
    scale = replace(config, min_participation=0.0, alpha_participation=1e3)
    return BenchSettings(
        config=config,
        scale=scale,
        many=60,
        repetitions=1,
        secure_clients=4,
        secure_dropped=1,
        weights=1_000,
        workers=2,
    )
