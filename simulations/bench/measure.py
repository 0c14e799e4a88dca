"""All rows, one measurement after the other; those that compare rounds are made here."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from simulations.bench.bare_loop import Bare, bare_loop
from simulations.bench.exactness import ties_row
from simulations.bench.flower_runs import ROUND, FlowerRuns, Times, participants, round_seconds
from simulations.bench.limits import gpu_row, share_row, start_rows, weights_row
from simulations.bench.messages import bytes_row, serialisation_milliseconds
from simulations.bench.peers import peers
from simulations.bench.plain_step import PlainTrainer
from simulations.bench.report import Row
from simulations.bench.secure import secure_rows
from simulations.bench.settings import WARM_UP, BenchSettings
from simulations.bench.side_by_side import Say, Sides
from simulations.config import RunConfig
from simulations.launch.simulator import Simulator
from simulations.tasks.arrays import PARTS


def measure(settings: BenchSettings, scratch: Path, say: Say) -> list[Row]:
    """Return all rows."""
    step = step_row(settings, say)
    rows = [step, share_row(settings, say), ties_row(settings, say), gpu_row(settings, say)]
    with Simulator(workers=settings.workers) as simulator:
        runs = FlowerRuns(simulator, settings.workers, scratch / "runs")
        rows = [*engine_rows(settings, runs, say), *rows, *growth_rows(settings, runs, say)]
        beside = peer_rows(settings, runs, scratch, say) if settings.environments else []
    rows += start_rows(settings, scratch, say)
    rows += [bytes_row(settings, scratch, say), weights_row(settings, say)]
    return [*rows, *secure_rows(settings, say), *beside]


def engine_rows(settings: BenchSettings, runs: FlowerRuns, say: Say) -> list[Row]:
    """Compare a round on Flower's engine with the bare loop and Flower's FedAvg."""
    config = replace(settings.config, clients_per_node=0)
    alone = replace(config, clients_per_node=1)
    kinds = {"hosts": config, "alone": alone, "fedavg": replace(alone, method="fedavg")}
    kinds |= {method: replace(config, method=method) for method in ("mifa", "fedvarp")}
    phases: dict[str, list[Times]] = {name: [] for name in kinds}
    sides = Sides()
    with bare_loop(config, settings.workers) as bare:
        for repetition in range(1, settings.repetitions + 1):
            for name, kind in kinds.items():
                say(f"a round with {name}, repetition {repetition}")
                times, reference = runs.beside(bare, kind)
                phases[name].append(times)
                sides.add(name, round_seconds(times), reference)
            say(f"a round with Flower alone, repetition {repetition}")
            sides.add("flower", *_flower_alone(bare, runs, kinds["fedavg"]))

    whole = float(np.median([times["evaluate"].max() for times in phases["hosts"]]))
    details = {f"{name}-seconds": sides.median(name) for name in sides.names} | {
        "bare-seconds": sides.reference(),
        "evaluate-seconds": whole,
        "participants": float(np.median(participants(config))),
    }
    images = sum(config.task.count(part) for part in PARTS)
    note = f"To evaluate all {images:,} images takes as long as "
    note += f"{whole / sides.median('hosts'):.0f} rounds."
    profiles = {name: _split(times, sides.reference(name)) for name, times in phases.items()}
    hosts = profiles["hosts"] | serialisation_milliseconds(config)
    return [
        Row("hosts", sides.ratio("hosts"), details=details, profile=hosts, note=note),
        Row("alone", sides.ratio("alone"), profile=profiles["alone"]),
        Row("alone-fedavg", sides.ratio("alone", "fedavg"), profile=profiles["fedavg"]),
        Row("mifa", sides.ratio("mifa", "hosts"), profile=profiles["mifa"]),
        Row("fedvarp", sides.ratio("fedvarp", "hosts"), profile=profiles["fedvarp"]),
        Row("flower", sides.ratio("flower", "hosts"), profile=hosts),
        Row("fedavg", sides.ratio("fedavg", "hosts"), profile=profiles["fedavg"]),
    ]


def peer_rows(settings: BenchSettings, runs: FlowerRuns, scratch: Path, say: Say) -> list[Row]:
    """Let other frameworks run their rounds in turns with ours and with each other."""
    config, cores = replace(settings.peers, clients_per_node=0), settings.workers
    sides, spent = Sides(), dict[str, list[float]]()
    with bare_loop(config, cores) as bare, peers(settings, scratch / "peers", say) as others:

        def everyone(number: int) -> float:
            for peer in others:
                spent.setdefault(peer.name, []).append(peer.round(number))
            return bare(number)

        say(f"rounds of {', '.join(peer.name for peer in others)} and ours, in turns")
        times, reference = runs.beside(everyone, config)
        used = {p.name: {"processes": p.processes, "threads": p.threads} for p in others}
    seconds = {name: np.array(found[WARM_UP:]) for name, found in spent.items()}
    with bare_loop(config, cores) as bare:
        say("rounds of a plain Flower app")
        alone = replace(config, clients_per_node=1)
        plain, beside = _flower_alone(bare, runs, alone, plain=True)
    sides.add("hosts", round_seconds(times), reference)
    sides.add("plain-flower", plain, beside)
    for name, found in seconds.items():
        sides.add(name, found, reference)
    rows = []
    for name in [*seconds, "plain-flower"]:
        facts = _both({side: sides.median(side) for side in (name, "hosts")})
        facts["details"] |= used.get(name, {})
        rows.append(Row(name, sides.ratio(name, "hosts"), **facts))
    return rows


def _both(seconds: dict[str, float]) -> dict[str, Any]:
    """Return details and profile of a row that compares two sides."""
    details = {f"{side}-seconds": value for side, value in seconds.items()}
    return {"details": details, "profile": {side: 1e3 * value for side, value in seconds.items()}}


def _flower_alone(
    bare: Bare, runs: FlowerRuns, config: RunConfig, *, plain: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the seconds of rounds of Flower's own loop and of the bare loop.

    Flower's engine looks for messages all the time, which would slow the other down: here half of
    the rounds are run before and half of them after.
    """
    middle = (WARM_UP + config.rounds) // 2
    before = _rounds(bare, WARM_UP + 1, middle)
    seconds = round_seconds(runs.flower_alone(config, plain=plain))
    return seconds, np.concatenate([before, _rounds(bare, middle + 1, config.rounds)])


def step_row(settings: BenchSettings, say: Say) -> Row:
    """Bare loops with the plain training step and with ours, round by round in turns."""
    config, sides = settings.config, Sides()
    say("the training step")
    with (
        bare_loop(config, settings.workers) as ours,
        bare_loop(config, settings.workers, PlainTrainer) as plain,
    ):
        seconds = [(plain(number), ours(number)) for number in range(1, config.rounds + 1)]
    sides.add("plain", *np.transpose(seconds[WARM_UP:]))
    medians = {"plain": sides.median("plain"), "ours": sides.reference()}
    return Row("step", sides.ratio("plain"), **_both(medians))


def growth_rows(settings: BenchSettings, runs: FlowerRuns, say: Say) -> list[Row]:
    """Run with more and more clients, and with more and more participants.

    Participants are as many in expectation only, so a round counts per participant, in turns with
    a bare loop over few clients.
    """
    few, many, most = settings.scale.clients, settings.many, settings.most
    kinds = {size: settings.at(size) for size in (few, many, most)}
    crowd = settings.at(many, settings.crowd)
    sides, memory, details = Sides(), dict[str, float](), dict[str, float]()
    present = participants(settings.scale)
    with bare_loop(settings.scale, settings.workers) as bare:
        for repetition in range(1, settings.repetitions + 1):
            for size, config in [*kinds.items(), (-1, crowd)]:
                if repetition > 1 and size in (most, -1):
                    continue
                name = "crowd" if size < 0 else f"{size}"
                say(f"growth, repetition {repetition}: {config.clients:,} clients")
                times, reference = runs.beside(bare, config)
                sides.add(name, round_seconds(times) / participants(config), reference / present)
                memory[name] = float(times["resident"]) / 1e6
    for name, megabytes in memory.items():
        expected = settings.crowd if name == "crowd" else settings.expected
        details[f"seconds-{name}"] = expected * sides.median(name)
        details[f"server-megabytes-{name}"] = megabytes
    note = f"At {most:,} clients a round takes {details[f'seconds-{most}']:.2f} s, at {few:,} "
    note += f"{details[f'seconds-{few}']:.2f} s; the server process holds {memory[f'{most}']:.0f} "
    note += f"MB and {memory[f'{few}']:.0f} MB."
    ratio, crowded = sides.ratio(f"{many}", f"{few}"), sides.ratio("crowd", f"{many}")
    return [
        Row("scale", ratio, (many, few), details, note=note),
        Row("million", memory[f"{most}"], (most,)),
        Row("participants", crowded, (settings.crowd, round(settings.expected))),
    ]


def _rounds(bare: Bare, first: int, last: int) -> np.ndarray:
    """Run some rounds and return their seconds; `WARM_UP` rounds come before them."""
    return np.array([bare(number) for number in range(first - WARM_UP, last + 1)])[WARM_UP:]


def _split(runs: list[Times], bare: float) -> dict[str, float]:
    """Return the median milliseconds of each phase: an exchange is training, and delivery.

    Training takes as long as in the bare loop, and delivery is the rest.
    """
    phases = {phase: 1e3 * float(np.median([times[phase] for times in runs])) for phase in ROUND}
    train = min(1e3 * bare, phases["exchange"])
    return {
        "configure": phases["configure"],
        "train, as in the bare loop": train,
        "deliver, the rest of the exchange": phases["exchange"] - train,
        "aggregate": phases["aggregate"],
        "record": phases["record"],
    }
