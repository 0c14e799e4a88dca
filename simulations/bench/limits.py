"""The step against what a core can do, how start and end of a run take time, and all weights."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from fedau_flwr import FedAUWeighting
from fedau_flwr.server.loop import RunFailure
from fedau_flwr.weight_state import WeightStates
from simulations.bench.report import Row
from simulations.bench.settings import BenchSettings
from simulations.bench.side_by_side import Say, milliseconds
from simulations.config import key_of
from simulations.nodes.kernel.choose import choose
from simulations.nodes.resident import ResidentModel, initial_parameters
from simulations.nodes.trainer import LocalTrainer
from simulations.runs.directory import RunDirectory
from simulations.runs.experiment import open_experiment
from simulations.tasks.images.models import build_model

SQUARE = 1024
"""Side of the matrices whose product says what a core can do."""

_TOLD = ("dataset", "data_dir", "clients", "local_steps", "batch_size", "run_dir", "device",
         "mean_participation", "min_participation")  # fmt: skip
"""What `fedau run` has to be told of a config."""


def share_row(settings: BenchSettings, say: Say) -> Row:
    """Compare the arithmetic of the local steps per second with that of a large matrix product.

    A step counts as what its definition needs: two operations per weight and position, forward
    once and backward twice, the first layer's inputs without gradient. The kernel needs fewer.
    """
    say("the step against the machine's limit")
    torch.set_num_threads(1)
    a, b = torch.rand(2, SQUARE, SQUARE)
    product = milliseconds(lambda _: a @ b, range(12))
    limit = 2 * SQUARE**3 / product / 1e6
    config = settings.config
    module = build_model(config.task, seed=1)
    native, reason = choose("auto", config.task, module)
    details: dict[str, float | str] = {"sgemm-gigaflops-of-a-core": limit}
    if native is None:
        return Row("share", None, details=details, note=f"No native step: {reason}.")
    rng = np.random.default_rng(1)
    steps, batch, classes = config.local_steps, config.batch_size, native.widths[-1]
    images = rng.normal(size=(steps, batch, 32, 32, 3)).astype(np.float32)
    labels = rng.integers(classes, size=(steps, batch))
    model = initial_parameters(config.task, seed=1)
    taken = milliseconds(lambda _: native.train(model, images, labels, 0.01), range(20)) / steps
    operations = batch * step_operations(native.inputs, native.widths)
    reached = operations / taken / 1e6
    details |= {"step-milliseconds": taken, "step-megaflop": operations / 1e6}
    details |= {"step-gigaflops": reached, "step-images": batch}
    note = f"A local step on {batch} images takes {taken:.2f} ms, {reached:.0f} GFLOP/s of its "
    note += f"definition's arithmetic; a matrix product reaches {limit:.0f} GFLOP/s."
    return Row("share", 100 * reached / limit, details=details, note=note)


def step_operations(inputs: tuple[int, ...], widths: tuple[int, ...]) -> int:
    """Return the arithmetic of a step on one image, forward and backward."""
    first, second = 2 * 32 * 32 * 32 * 27, 2 * 16 * 16 * 32 * 288
    dense = sum(2 * a * b for a, b in zip(inputs, widths, strict=True))
    return 2 * first + 3 * (second + dense)


def start_rows(settings: BenchSettings, scratch: Path, say: Say) -> list[Row]:
    """Run the command itself; a client's state is there when it has trained."""
    starts, ends = [], []
    for number in range(settings.repetitions):
        say(f"start and end of a run, repetition {number + 1}")
        run = RunDirectory(scratch / f"start-{number}")
        config = replace(settings.config, num_server_rounds=2, run_dir=str(run.path))
        command = [sys.executable, "-c", "from fedau_flwr.cli import main; main()", "run"]
        command += [f"--{key_of(name)}={getattr(config, name)}" for name in _TOLD]
        command += ["--rounds=2", "--evaluate-every=2", f"--workers={settings.workers}"]
        began = time.time()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            while not _trained(run) and process.poll() is None:
                time.sleep(0.02)
            starts.append(time.time() - began)
            said, _ = process.communicate()
            if process.returncode:
                raise RunFailure(f"`fedau run` failed: {said.decode()[-300:]}")
            ends.append(time.time() - run.outcome_file.stat().st_mtime)
    details = {"start-seconds": starts, "end-seconds": ends}
    start, end = (float(np.median(seconds)) for seconds in (starts, ends))
    return [Row("start", start, details=details), Row("end", end)]


def _trained(run: RunDirectory) -> bool:
    records = run.states / "states.bin"
    return records.exists() and records.stat().st_size > 0


def gpu_row(settings: BenchSettings, say: Say) -> Row:
    """Compare replayed local steps with launched ones, where there is a GPU."""
    if not torch.cuda.is_available():
        return Row("gpu", None, note="No GPU was measured.")
    say("local steps on the GPU")
    experiment, task = open_experiment(settings.config), settings.config.task
    parameters, spent = initial_parameters(task, seed=1), {}
    for replayed in (False, True):
        model = ResidentModel(task, device="cuda", kernel="torch")
        trainer = LocalTrainer(task, experiment.arrays.train, model=model, replay=replayed)

        def train(client: int, trainer: LocalTrainer = trainer) -> None:
            indices = experiment.split.client(client)
            trainer.train(parameters, indices, lr=0.01, seed=(1, client, 1))

        train(0)
        spent[replayed] = milliseconds(train, range(1, 30))
    details = {"launched-milliseconds": spent[False], "replayed-milliseconds": spent[True]}
    return Row("gpu", spent[False] / spent[True], details=details)


def weights_row(settings: BenchSettings, say: Say) -> Row:
    """Advance all weights of a large population by a round."""
    say("a round of weights")
    weighting, rng = FedAUWeighting(), np.random.default_rng(1)
    states = WeightStates.repeat(weighting.initial(), settings.weights)

    def advance(participated: NDArray[np.bool_]) -> None:
        nonlocal states
        states = weighting.advance_all(states, participated)

    rounds = (rng.random(settings.weights) < 0.1 for _ in range(20))
    return Row("weights", milliseconds(advance, rounds), (settings.weights,))
