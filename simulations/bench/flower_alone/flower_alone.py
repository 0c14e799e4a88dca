"""Flower's FedAvg as it comes: its own `start()`, its own engine, one client per SuperNode.

Only who takes part is ours and, unless it is to be plain, the training step, so that both sides of
the comparison do the same work. An app of its own, since the suite's brings its own loop and wakes
the engine.
"""

import time
from functools import lru_cache
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedau_flwr.availability import AvailabilityGrid, answer_identity
from fedau_flwr.files import save_arrays
from simulations.bench.plain_step import PlainTrainer
from simulations.methods.fedavg import FedAvgMethod
from simulations.nodes.resident import initial_parameters
from simulations.nodes.worker import LR, Worker, worker_for
from simulations.runs.directory import RunDirectory
from simulations.runs.experiment import open_experiment

server = ServerApp()
client = ClientApp(mods=[answer_identity])


def _run(context: Context) -> RunDirectory:
    return RunDirectory(Path(str(context.run_config["run-dir"])))


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run FedAvg and write down how long each round took."""
    run = _run(context)
    config = run.config()
    experiment = open_experiment(config)
    present = AvailabilityGrid(grid, experiment.process)
    present.wait_for_clients()
    moments = []

    def note(_server_round: int, _arrays: ArrayRecord) -> None:
        moments.append(time.perf_counter())

    model = initial_parameters(experiment.task, seed=config.seed)
    arrays = ArrayRecord({name: Array(value) for name, value in model.items()})
    strategy, follow = FedAvgMethod().strategy(), present.following(note)
    strategy.start(present, arrays, num_rounds=config.rounds, evaluate_fn=follow)
    save_arrays(run.times_file, {"exchange": np.diff(moments)})
    run.finish("finished", config.rounds, "The run finished.")


@lru_cache(maxsize=1)
def plain_trainer(worker: Worker) -> PlainTrainer:
    """Return the trainer of this process."""
    return PlainTrainer(worker.experiment.task, worker.experiment.arrays.train)


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train this node's client."""
    config = _run(context).config()
    worker = worker_for(config)
    number = int(context.node_config["partition-id"])
    arrays = message.content.array_records["arrays"]
    model = {name: array.numpy() for name, array in arrays.items()}
    settings = {LR: config.local_lr, "server-round": message.content["config"]["server-round"]}
    if context.run_config["plain"]:
        seed = (config.seed, number, int(str(settings["server-round"])))
        how = {"steps": config.local_steps, "batch": config.batch_size}
        held = worker.experiment.split.client(number)
        result = plain_trainer(worker).train(model, held, lr=config.local_lr, seed=seed, **how)
        trained = result.parameters
    else:
        trained = worker.train(number, model, settings)
    reply = ArrayRecord({name: Array(value) for name, value in trained.items()})
    metrics = MetricRecord({"num-examples": max(1, worker.examples(number))})
    return Message(RecordDict({"arrays": reply, "metrics": metrics}), reply_to=message)
