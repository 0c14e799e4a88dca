"""Rows 1 to 3: a round on Flower's engine against the bare loop, and against Flower's FedAvg."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulations.bench.bare_loop import BareLoop
from simulations.bench.flower_runs import ROUND, FlowerRuns, participants, round_seconds
from simulations.bench.row import Row
from simulations.bench.serialisation import serialisation_milliseconds
from simulations.bench.settings import WARM_UP, BenchSettings
from simulations.bench.side_by_side import Say, Sides
from simulations.tasks.arrays import PARTS


def engine_rows(settings: BenchSettings, runs: FlowerRuns, say: Say) -> list[Row]:
    """Run the four kinds of runs and the bare loop in turns."""
    config = replace(settings.config, clients_per_node=0)
    alone = replace(config, clients_per_node=1)
    fedavg = replace(alone, method="fedavg")
    phases: dict[str, list[dict[str, np.ndarray]]] = {"hosts": [], "alone": [], "fedavg": []}
    sides = Sides()
    with BareLoop(config, settings.workers) as bare:
        for repetition in range(settings.repetitions):
            for name, this in (("hosts", config), ("alone", alone), ("fedavg", fedavg)):
                say(f"rows 1-3, repetition {repetition + 1}: {name}")
                times, reference = runs.beside(bare, this)
                phases[name].append(times)
                sides.add(name, round_seconds(times), reference)
            say(f"rows 1-3, repetition {repetition + 1}: Flower alone")
            # Flower's engine looks for messages all the time, which would slow the other down:
            # here half of the rounds are run before and half of them after.
            middle = (WARM_UP + config.rounds) // 2
            before = bare.rounds(WARM_UP + 1, middle)
            seconds = round_seconds(runs.flower_alone(fedavg))
            after = bare.rounds(middle + 1, config.rounds)
            sides.add("flower", seconds, np.concatenate([before, after]))

    def profile(name: str) -> dict[str, float]:
        """Split a round: training as in the bare loop, the rest of the exchange is delivery."""
        ms = {p: 1e3 * float(np.median([t[p] for t in phases[name]])) for p in ROUND}
        train = min(1e3 * sides.reference(name), ms["exchange"])
        return {
            "configure": ms["configure"],
            "train, as in the bare loop": train,
            "deliver, the rest of the exchange": ms["exchange"] - train,
            "aggregate": ms["aggregate"],
            "record": ms["record"],
            **serialisation_milliseconds(config),
        }

    details = {f"{name}-seconds": sides.median(name) for name in sides.names}
    details["bare-seconds"] = sides.reference()
    whole = float(np.median([times["evaluate"].max() for times in phases["hosts"]]))
    details["evaluate-seconds"] = whole
    images = sum(config.task.count(part) for part in PARTS)
    details["participants"] = float(np.median(participants(config)))
    return [
        Row("hosts", "FedAU with hosts / bare loop", sides.ratio("hosts"), "at most", 1.10,
            details=details, profile=profile("hosts"),
            note=f"To evaluate all {images:,} images takes as long as "
            f"{whole / sides.median('hosts'):.0f} rounds."),
        Row("alone", "FedAU, one client per node / bare loop", sides.ratio("alone"),
            "at most", 1.6, profile=profile("alone")),
        Row("alone-fedavg", "FedAU / Flower's FedAvg, both one client per node in this suite",
            sides.ratio("alone", "fedavg"), "at most", 1.03, profile=profile("fedavg")),
        Row("flower", "Flower's FedAvg on Flower's own loop, one client per node / FedAU, hosts",
            sides.ratio("flower", "hosts"), "at least", 1.6, profile=profile("hosts")),
        Row("fedavg", "Flower's FedAvg in this suite, one client per node / FedAU, hosts",
            sides.ratio("fedavg", "hosts"), "at least", 1.6, profile=profile("fedavg")),
    ]  # fmt: skip
