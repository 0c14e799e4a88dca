"""Tiny experiments: the real ServerApp and ClientApp on nodes within the test's own process."""

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from fedau_flwr.server.callbacks import Callback
from fedau_flwr.server.callbacks.checkpoints import load_checkpoint
from fedau_flwr.testing.in_process_grid import InProcessGrid
from simulations.client_app import app
from simulations.config import RunConfig
from simulations.runs.directory import RunDirectory
from simulations.server_app import run_experiment

HOSTS = 3


class Crash(Exception):
    """What ends a run in the middle."""


class CrashingGrid(InProcessGrid):
    """Fails once a round's train messages have been answered, before the server sees it."""

    crash_after: int | None = None

    def push_messages(self, messages):
        messages = list(messages)
        ids = super().push_messages(messages)
        for message in messages:
            config = message.content.config_records.get("config", {})
            if self.crash_after is not None and config.get("server-round") == self.crash_after:
                raise Crash("no sentence")
        return ids


def tiny(directory: Path, name: str, **changes) -> RunConfig:
    """Return the settings of a run that takes a second or less."""
    settings = {
        "clients": 14,
        "dataset": "synthetic:train=300:test=60",
        "num_server_rounds": 20,
        "mean_participation": 0.3,
        "evaluate_every": 10,
        "checkpoint_every": 6,
        "data_dir": str(directory / "data"),
        "run_dir": str(directory / name),
    }
    return RunConfig(**{**settings, **changes})


def run(
    config: RunConfig,
    *,
    nodes: int | None = None,
    crash_after: int | None = None,
    callbacks: Iterable[Callback] = (),
) -> RunDirectory:
    """Run an experiment, by default on as many nodes as its packing needs."""
    per_node = config.clients_per_node
    nodes = nodes or (math.ceil(config.clients / per_node) if per_node else HOSTS)
    grid = CrashingGrid(app, nodes, config.to_dict())
    grid.crash_after = crash_after
    return run_experiment(grid, config, callbacks)


def model_of(run: RunDirectory) -> dict[str, np.ndarray]:
    """Return the model of a run's last checkpoint."""
    return load_checkpoint(run.checkpoint_file)["model"]


def assert_same(left: dict[str, np.ndarray], right: dict[str, np.ndarray], *, atol=0.0) -> None:
    """Compare two models, to the last bit unless told otherwise."""
    assert left.keys() == right.keys()
    for name, value in left.items():
        np.testing.assert_allclose(right[name], value, rtol=0.0, atol=atol, err_msg=name)
