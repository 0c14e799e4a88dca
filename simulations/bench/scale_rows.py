"""Row 5: a round with many clients against one with few, and a million weights."""

from __future__ import annotations

import time

import numpy as np

from fedau_flwr import FedAUWeighting
from fedau_flwr.weight_state import WeightStates
from simulations.bench.flower_runs import ROUND, FlowerRuns, participants, round_seconds
from simulations.bench.row import Row
from simulations.bench.settings import BenchSettings
from simulations.bench.side_by_side import Say


def scale_row(settings: BenchSettings, runs: FlowerRuns, say: Say) -> Row:
    """Run few and many clients in turns.

    The two have as many participants in expectation only, so a round counts per participant.
    """
    sizes = (settings.scale.clients, settings.many)
    per_participant: dict[int, list[np.ndarray]] = {size: [] for size in sizes}
    phases: dict[int, list[dict[str, np.ndarray]]] = {size: [] for size in sizes}
    for repetition in range(settings.repetitions):
        for size in sizes:
            say(f"row 5, repetition {repetition + 1}: {size:,} clients")
            config = settings.at(size)
            times = runs.run(config)
            phases[size].append(times)
            per_participant[size].append(round_seconds(times) / participants(config))
    expected = settings.scale.mean_participation * settings.scale.clients
    few, many = (expected * float(np.median(per_participant[size])) for size in sizes)
    return Row(
        "scale",
        f"round with {sizes[1]:,} clients / with {sizes[0]:,}, as many participants",
        many / few,
        "at most",
        1.15,
        details={
            f"{kind}-{size}": value
            for size, seconds in zip(sizes, (few, many), strict=True)
            for kind, value in (
                ("seconds", seconds),
                ("server-megabytes", float(phases[size][-1]["resident"]) / 1e6),
            )
        },
        profile={
            f"{phase}, {size:,} clients": 1e3 * float(np.median([t[phase] for t in phases[size]]))
            for phase in ROUND
            for size in sizes
        },
    )


def weights_row(settings: BenchSettings, say: Say) -> Row:
    """Advance all weights of a large population by a round."""
    say("a round of weights")
    weighting = FedAUWeighting()
    states = WeightStates.repeat(weighting.initial(), settings.weights)
    rng = np.random.default_rng(1)
    times = []
    for _ in range(20):
        participated = rng.random(settings.weights) < 0.1
        start = time.perf_counter()
        states = weighting.advance_all(states, participated)
        times.append(1e3 * (time.perf_counter() - start))
    return Row(
        "weights",
        f"{settings.weights:,} weights advance one round",
        float(np.median(times)),
        "at most",
        50.0,
        unit="ms",
    )
