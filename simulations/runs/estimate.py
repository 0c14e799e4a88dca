"""How long runs will take on this machine, from a second of the work that they consist of."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Self

from simulations.config import RunConfig
from simulations.tasks.arrays import PARTS

START = 12.0
"""Seconds until a run trains, and from its last round to its end."""

ENGINE = 1.1
"""What Flower's engine adds to training, as `fedau bench` measures it."""

_LONG_ENOUGH = 0.3
_SAMPLES = 256


@dataclass(frozen=True)
class Costs:
    """Seconds of one core: for a round's participants, and for one evaluation of the model."""

    round: float
    evaluation: float

    @classmethod
    def measured(cls, config: RunConfig) -> Self:
        """Train and evaluate a little with the settings of a run."""
        # torch takes seconds, which a command that runs nothing need not wait for.
        from simulations.nodes.resident import initial_parameters  # noqa: PLC0415
        from simulations.nodes.worker import Worker  # noqa: PLC0415

        worker = Worker(config)
        model = initial_parameters(config.task, seed=config.seed)
        experiment = worker.experiment
        order = experiment.split.sizes.argsort()
        client, settings = int(order[len(order) // 2]), {"lr": config.local_lr}
        train = _timed(lambda t: worker.train(client, model, {**settings, "server-round": t}))
        evaluate = _timed(lambda t: worker.evaluate(model, "test", 0, _SAMPLES))
        samples = sum(len(getattr(experiment.arrays, part).targets) for part in PARTS)
        test = min(_SAMPLES, len(experiment.arrays.test.targets))
        return cls(train * float(experiment.probabilities.sum()), evaluate * samples / test)

    def seconds(self, config: RunConfig, workers: int, *, reached: int = 0) -> float:
        """Return how long the rest of a run takes."""
        rounds = range(reached + 1, config.rounds + 1)
        evaluations = sum(config.evaluates(number) for number in rounds)
        work = ENGINE * self.round * len(rounds) + self.evaluation * evaluations
        return START + work / workers


def estimated_seconds(todo: Iterable[tuple[RunConfig, int]], workers: int) -> float:
    """Return how long runs take one after the other, given the round that each has reached."""
    known: dict[Any, Costs] = {}
    total = 0.0
    for config, reached in todo:
        # Seed and method make no difference to the work of a round that is worth a measurement.
        kind = replace(config, method="fedau", seed=1, lr=0.0, server_lr=0.0, run_dir="")
        if kind not in known:
            known[kind] = Costs.measured(kind)
        total += known[kind].seconds(config, workers, reached=reached)
    return total


def _timed(work: Any) -> float:
    """Return the CPU seconds of one call, which other work does not lengthen, after a first one."""
    work(1)
    start = time.process_time()
    for number in count(1):
        work(number + 1)
        if (spent := time.process_time() - start) >= _LONG_ENOUGH:
            break
    return spent / number


def duration(seconds: float) -> str:
    """Return a duration as people say it."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{max(minutes, 1)} min"
