"""Row 5: a round with many clients against one with few, and a million weights."""

from __future__ import annotations

import time

import numpy as np

from fedau_flwr import FedAUWeighting
from fedau_flwr.weight_state import WeightStates
from simulations.bench.bare_loop import BareLoop
from simulations.bench.flower_runs import ROUND, FlowerRuns, participants, round_seconds
from simulations.bench.row import Row
from simulations.bench.settings import BenchSettings
from simulations.bench.side_by_side import Say, Sides


def scale_row(settings: BenchSettings, runs: FlowerRuns, say: Say) -> Row:
    """Run few and many clients, both in turns with a bare loop of few.

    They have as many participants in expectation only, so a round counts per participant.
    """
    sizes = (settings.scale.clients, settings.many)
    phases: dict[int, list[dict[str, np.ndarray]]] = {size: [] for size in sizes}
    sides, present = Sides(), participants(settings.scale)
    with BareLoop(settings.scale, settings.workers) as bare:
        for repetition in range(settings.repetitions):
            for size in sizes:
                say(f"row 5, repetition {repetition + 1}: {size:,} clients")
                config = settings.at(size)
                times, reference = runs.beside(bare, config)
                phases[size].append(times)
                seconds = round_seconds(times) / participants(config)
                sides.add(f"{size}", seconds, reference / present)
    expected = settings.scale.mean_participation * settings.scale.clients
    few, many = (expected * sides.median(f"{size}") for size in sizes)
    memory = {size: float(phases[size][-1]["resident"]) / 1e6 for size in sizes}
    return Row(
        "scale",
        f"round with {sizes[1]:,} clients / with {sizes[0]:,}, as many participants",
        sides.ratio(f"{sizes[1]}", f"{sizes[0]}"),
        "at most",
        1.15,
        details={
            f"{kind}-{size}": value
            for size, seconds in zip(sizes, (few, many), strict=True)
            for kind, value in (
                ("seconds", seconds),
                ("server-megabytes", memory[size]),
            )
        },
        profile={
            f"{phase}, {size:,} clients": 1e3 * float(np.median([t[phase] for t in phases[size]]))
            for phase in ROUND
            for size in sizes
        },
        note=f"At {sizes[1]:,} clients the server process holds {memory[sizes[1]]:.0f} MB, at "
        f"{sizes[0]:,} it holds {memory[sizes[0]]:.0f} MB.",
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
