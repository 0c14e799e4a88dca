"""The bare training loop: the same clients and steps in as many processes, and nothing else.

No Flower, no messages, no states: the model lies in shared memory, every process trains its share
of the participants one after the other and adds up their updates, and the sum moves the model.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import RawArray
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.availability.host_grid import deal
from fedau_flwr.server.loop import RunFailure
from simulations.config import RunConfig
from simulations.nodes.resident import Parameters, initial_parameters
from simulations.nodes.trainer import LocalTrainer
from simulations.runs.experiment import open_experiment

Bare = Callable[[int], float]
"""Runs the round of a number, counted from 1, and returns its seconds."""


@contextmanager
def bare_loop(
    config: RunConfig, processes: int, trainer: Callable[..., Any] = LocalTrainer
) -> Iterator[Bare]:
    """Start so many processes that train with `trainer`, and return what runs a round on them."""
    available = open_experiment(config).process
    initial = initial_parameters(config.task, seed=config.seed)
    size = sum(value.size for value in initial.values())
    shared = RawArray("f", size * (1 + processes))
    model, *sums = np.frombuffer(shared, np.float32).reshape(-1, size)
    model[:] = np.concatenate([value.ravel() for value in initial.values()])
    context = multiprocessing.get_context("spawn")
    ends, workers = [], []
    for number in range(processes):
        ours, theirs = context.Pipe()
        arguments = (theirs, config, trainer, shared, number)
        workers.append(context.Process(target=_serve, args=arguments, daemon=True))
        workers[-1].start()
        theirs.close()
        ends.append(ours)

    def wait() -> None:
        """Wait until every process has answered."""
        try:
            for end in ends:
                end.recv()
        except EOFError:
            raise RunFailure("A process of the bare loop ended before it had trained.") from None

    def run_round(number: int) -> float:
        participants = np.flatnonzero(available.active(number - 1))
        start = time.perf_counter()
        for end, clients in zip(ends, deal(participants, processes), strict=True):
            end.send((number, clients))
        wait()
        for total in sums:
            model[:] += total * np.float32(config.global_lr / config.clients)
        return time.perf_counter() - start

    try:
        wait()
        yield run_round
    finally:
        for end in ends:
            end.close()
        for worker in workers:
            worker.join()


def _views(flat: NDArray[np.float32], arrays: Parameters) -> Parameters:
    """Return the parts of a vector by name, in the shapes of `arrays`."""
    ends = np.cumsum([value.size for value in arrays.values()])[:-1]
    parts = zip(arrays.items(), np.split(flat, ends), strict=True)
    return {name: part.reshape(value.shape) for (name, value), part in parts}


def _serve(
    end: Connection, config: RunConfig, make: Callable[..., Any], shared: Any, number: int
) -> None:
    """Train the clients of one process, round after round."""
    experiment = open_experiment(config)
    trainer = make(experiment.task, experiment.arrays.train)
    arrays = initial_parameters(config.task, seed=config.seed)
    size = sum(value.size for value in arrays.values())
    vectors = np.frombuffer(shared, np.float32).reshape(-1, size)
    total = vectors[1 + number]
    model, added = _views(vectors[0], arrays), _views(total, arrays)
    how = {"steps": config.local_steps, "batch": config.batch_size}
    end.send("ready")
    while True:
        try:
            server_round, clients = end.recv()
        except EOFError:
            return
        total[:] = 0
        for client in clients:
            held, seed = experiment.split.client(client), (config.seed, client, server_round)
            result = trainer.train(model, held, lr=config.local_lr, seed=seed, **how)
            for name, value in result.parameters.items():
                added[name] += value - model[name]
        end.send("done")
