"""All rows, one measurement after the other; those that compare rounds are made here."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from simulations.bench.bare_loop import Bare, bare_loop
from simulations.bench.flower_runs import ROUND, FlowerRuns, Times, participants, round_seconds
from simulations.bench.messages import bytes_row, serialisation_milliseconds
from simulations.bench.million import weights_row
from simulations.bench.plain_step import PlainTrainer
from simulations.bench.report import Row
from simulations.bench.secure import secure_rows
from simulations.bench.settings import WARM_UP, BenchSettings
from simulations.bench.side_by_side import Say, Sides
from simulations.launch.simulator import CLONE, Simulator
from simulations.tasks.arrays import PARTS


def measure(settings: BenchSettings, scratch: Path, say: Say) -> list[Row]:
    """Return all rows."""
    # The apps of the benchmark are guests here and find our modules by this path.
    paths = [str(CLONE), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    step = step_row(settings, say)
    with Simulator(workers=settings.workers, environment=environment) as simulator:
        runs = FlowerRuns(simulator, settings.workers, scratch / "runs")
        rows = [*engine_rows(settings, runs, say), step, scale_row(settings, runs, say)]
    rows += [bytes_row(settings, scratch, say), weights_row(settings, say)]
    return rows + secure_rows(settings, say)


def engine_rows(settings: BenchSettings, runs: FlowerRuns, say: Say) -> list[Row]:
    """Rows 1 to 3: a round on Flower's engine against the bare loop and Flower's FedAvg."""
    config = replace(settings.config, clients_per_node=0)
    alone = replace(config, clients_per_node=1)
    kinds = {"hosts": config, "alone": alone, "fedavg": replace(alone, method="fedavg")}
    phases: dict[str, list[Times]] = {name: [] for name in kinds}
    sides = Sides()
    with bare_loop(config, settings.workers) as bare:
        for repetition in range(1, settings.repetitions + 1):
            for name, kind in kinds.items():
                say(f"rows 1-3, repetition {repetition}: {name}")
                times, reference = runs.beside(bare, kind)
                phases[name].append(times)
                sides.add(name, round_seconds(times), reference)
            say(f"rows 1-3, repetition {repetition}: Flower alone")
            # Flower's engine looks for messages all the time, which would slow the other down:
            # here half of the rounds are run before and half of them after.
            middle = (WARM_UP + config.rounds) // 2
            before = _rounds(bare, WARM_UP + 1, middle)
            seconds = round_seconds(runs.flower_alone(kinds["fedavg"]))
            after = _rounds(bare, middle + 1, config.rounds)
            sides.add("flower", seconds, np.concatenate([before, after]))

    whole = float(np.median([times["evaluate"].max() for times in phases["hosts"]]))
    details = {f"{name}-seconds": sides.median(name) for name in sides.names} | {
        "bare-seconds": sides.reference(),
        "evaluate-seconds": whole,
        "participants": float(np.median(participants(config))),
    }
    images = sum(config.task.count(part) for part in PARTS)
    note = f"To evaluate all {images:,} images takes as long as "
    note += f"{whole / sides.median('hosts'):.0f} rounds."
    hosts, single, fedavg = (
        _split(_milliseconds(phases[name]), 1e3 * sides.reference(name))
        | serialisation_milliseconds(config)
        for name in kinds
    )
    return [
        Row("hosts", sides.ratio("hosts"), details=details, profile=hosts, note=note),
        Row("alone", sides.ratio("alone"), profile=single),
        Row("alone-fedavg", sides.ratio("alone", "fedavg"), profile=fedavg),
        Row("flower", sides.ratio("flower", "hosts"), profile=hosts),
        Row("fedavg", sides.ratio("fedavg", "hosts"), profile=fedavg),
    ]


def step_row(settings: BenchSettings, say: Say) -> Row:
    """Row 4: bare loops with the plain training step and with ours, round by round in turns."""
    config, sides = settings.config, Sides()
    say("row 4: the training step")
    with (
        bare_loop(config, settings.workers) as ours,
        bare_loop(config, settings.workers, PlainTrainer) as plain,
    ):
        seconds = [(plain(number), ours(number)) for number in range(1, config.rounds + 1)]
    sides.add("plain", *np.transpose(seconds[WARM_UP:]))
    medians = {"plain": sides.median("plain"), "ours": sides.reference()}
    details = {f"{name}-seconds": value for name, value in medians.items()}
    profile = {name: 1e3 * value for name, value in medians.items()}
    return Row("step", sides.ratio("plain"), details=details, profile=profile)


def scale_row(settings: BenchSettings, runs: FlowerRuns, say: Say) -> Row:
    """Row 5: a round with many clients against one with few, in turns with a bare loop of few.

    They have as many participants in expectation only, so a round counts per participant.
    """
    many, few = settings.many, settings.scale.clients
    phases: dict[int, list[Times]] = {few: [], many: []}
    sides, present = Sides(), participants(settings.scale)
    with bare_loop(settings.scale, settings.workers) as bare:
        for repetition in range(1, settings.repetitions + 1):
            for size, made in phases.items():
                say(f"row 5, repetition {repetition}: {size:,} clients")
                config = settings.at(size)
                times, reference = runs.beside(bare, config)
                made.append(times)
                seconds = round_seconds(times) / participants(config)
                sides.add(f"{size}", seconds, reference / present)
    expected = settings.scale.mean_participation * few
    memory = {size: float(made[-1]["resident"]) / 1e6 for size, made in phases.items()}
    details = {}
    for size in phases:
        details[f"seconds-{size}"] = expected * sides.median(f"{size}")
        details[f"server-megabytes-{size}"] = memory[size]
    spent = {size: _milliseconds(made) for size, made in phases.items()}
    return Row(
        "scale",
        sides.ratio(f"{many}", f"{few}"),
        (many, few),
        details,
        {f"{phase}, {size:,} clients": spent[size][phase] for phase in ROUND for size in phases},
        note=f"At {many:,} clients the server process holds {memory[many]:.0f} MB, at "
        f"{few:,} it holds {memory[few]:.0f} MB.",
    )


def _rounds(bare: Bare, first: int, last: int) -> np.ndarray:
    """Run some rounds and return their seconds; `WARM_UP` rounds come before them."""
    return np.array([bare(number) for number in range(first - WARM_UP, last + 1)])[WARM_UP:]


def _milliseconds(runs: list[Times]) -> dict[str, float]:
    """Return the median of each phase of a round."""
    return {phase: 1e3 * float(np.median([times[phase] for times in runs])) for phase in ROUND}


def _split(phases: dict[str, float], bare: float) -> dict[str, float]:
    """Split an exchange: training takes as long as in the bare loop, the rest is delivery."""
    train = min(bare, phases["exchange"])
    return {
        "configure": phases["configure"],
        "train, as in the bare loop": train,
        "deliver, the rest of the exchange": phases["exchange"] - train,
        "aggregate": phases["aggregate"],
        "record": phases["record"],
    }
