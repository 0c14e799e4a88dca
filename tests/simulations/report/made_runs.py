"""Run directories made by hand, with numbers that a test can foresee."""

from dataclasses import fields
from pathlib import Path

import numpy as np

from fedau_flwr import FedAUWeighting
from fedau_flwr.files import save_arrays
from fedau_flwr.weight_state import WeightStates
from simulations.config import RunConfig
from simulations.runs.directory import RunDirectory

CLASSES = 10


def made_run(path: Path, **options) -> RunDirectory:
    """Write the directory of a run; options that are settings of a run are its settings."""
    own = {f.name for f in fields(RunConfig)} & options.keys()
    settings = {"run_dir": str(path), **{name: options.pop(name) for name in own}}
    return made_from(RunConfig(**settings), **options)


def made_from(
    config: RunConfig,
    *,
    accuracy=lambda t: 0.5,
    loss=lambda t: 1.0,
    status: str = "finished",
    until: int | None = None,
    final_clients: dict | None = None,
    participation: dict | None = None,
    class_accuracy=None,
) -> RunDirectory:
    """Write the directory of a run whose train accuracy is 0.1 above its test accuracy."""
    run = RunDirectory.open(config)
    last = until or config.rounds
    for number in range(1, last + 1):
        if config.evaluates(number) or number == last:
            test = accuracy(number)
            classes = list(class_accuracy) if class_accuracy is not None else [test] * CLASSES
            run.report(
                {
                    "round": number,
                    "train_loss": loss(number),
                    "train_accuracy": test + 0.1,
                    "test_loss": loss(number) + 0.1,
                    "test_accuracy": test,
                    "train_class_accuracy": [c + 0.1 for c in classes],
                    "test_class_accuracy": classes,
                    "participants": 2.0,
                    "counted": 2.0,
                    "seconds": 0.1 * number,
                }
            )
    run.finish(status, last, f"made {status}")
    if participation is not None:
        save_arrays(run.participation_file, participation)
    if final_clients is not None:
        save_arrays(run.clients_file, final_clients)
    return run


def participation_of(probability, *, cutoff=None, rounds=0, shares=None, seed=0) -> dict:
    """Return what a run records about participation, with replayed weights if it has rounds."""
    probability = np.asarray(probability, float)
    clients = len(probability)
    if shares is None:
        shares = np.eye(CLASSES)[np.arange(clients) % CLASSES]
    arrays = {
        "probability": probability,
        "class_shares": shares,
        "sizes": np.full(clients, 10),
        "participated": np.zeros(clients, int),
        "counted": np.zeros(clients, int),
    }
    if rounds:
        weighting = FedAUWeighting(cutoff)
        states = WeightStates.repeat(weighting.initial(), clients)
        rng, means, weights = np.random.default_rng(seed), [], []
        for _ in range(rounds):
            means.append(states.weight.mean())
            weights.append(states.weight)
            states = weighting.advance_all(states, rng.random(clients) < probability)
        arrays |= {
            "weight": states.weight,
            "tracked": np.arange(clients),
            "mean_weight": np.array(means),
            "tracked_weights": np.array(weights),
        }
    return arrays
