"""The bare training loop: the same clients and steps in as many processes, and nothing else.

No Flower, no messages, no states: the model lies in shared memory, every process trains its share
of the participants one after the other and adds up their updates, and the sum moves the model.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import RawArray
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.availability.host_grid import deal
from fedau_flwr.server.loop import RunFailure
from simulations.bench.plain_step import PlainTrainer
from simulations.bench.settings import WARM_UP
from simulations.config import RunConfig
from simulations.nodes.resident import Parameters, initial_parameters
from simulations.nodes.trainer import LocalTrainer
from simulations.runs.experiment import open_experiment

TRAINERS: dict[str, Callable[..., Any]] = {"ours": LocalTrainer, "plain": PlainTrainer}


class BareLoop:
    """Processes that train, as a context manager.

    Parameters
    ----------
    config : RunConfig
        Data, split, participation and steps.
    processes : int
        How many.
    trainer : str (default: "ours")
        Our training step, or the "plain" one.
    """

    def __init__(self, config: RunConfig, processes: int, trainer: str = "ours") -> None:
        self._config = config
        self._process = open_experiment(config).process
        initial = initial_parameters(config.task, seed=config.seed)
        size = sum(value.size for value in initial.values())
        self._shared = RawArray("f", size * (1 + processes))
        self._model, *self._sums = _vectors(self._shared, size)
        self._model[:] = np.concatenate([value.ravel() for value in initial.values()])
        context = multiprocessing.get_context("spawn")
        self._ends: list[Connection] = []
        self._theirs: list[Connection] = []
        self._processes = []
        for number in range(processes):
            ours, theirs = context.Pipe()
            self._ends.append(ours)
            self._theirs.append(theirs)
            self._processes.append(
                context.Process(
                    target=_serve,
                    args=(theirs, config, trainer, self._shared, number),
                    daemon=True,
                )
            )

    def __enter__(self) -> BareLoop:
        for process in self._processes:
            process.start()
        for end in self._theirs:
            end.close()
        self._wait()
        return self

    def __exit__(self, *error: object) -> None:
        for end in self._ends:
            end.close()
        for process in self._processes:
            process.join()

    def _wait(self) -> None:
        """Wait until every process has answered."""
        try:
            for end in self._ends:
                end.recv()
        except EOFError:
            raise RunFailure("A process of the bare loop ended before it had trained.") from None

    def round(self, number: int) -> float:
        """Run a round, counted from 1, and return its seconds."""
        participants = np.flatnonzero(self._process.active(number - 1))
        start = time.perf_counter()
        for end, clients in zip(self._ends, deal(participants, len(self._ends)), strict=True):
            end.send((number, clients))
        self._wait()
        for total in self._sums:
            self._model += total * np.float32(self._config.global_lr / self._config.clients)
        return time.perf_counter() - start

    def rounds(self, first: int, last: int) -> NDArray[np.float64]:
        """Run some rounds and return their seconds; `WARM_UP` rounds come before them."""
        seconds = [self.round(number) for number in range(first - WARM_UP, last + 1)]
        return np.array(seconds)[WARM_UP:]


def _vectors(shared: Any, size: int) -> list[NDArray[np.float32]]:
    return list(np.frombuffer(shared, np.float32).reshape(-1, size))


def _views(flat: NDArray[np.float32], arrays: Parameters) -> Parameters:
    """Return the parts of a vector by name, in the shapes of `arrays`."""
    ends = np.cumsum([value.size for value in arrays.values()])[:-1]
    parts = zip(arrays.items(), np.split(flat, ends), strict=True)
    return {name: part.reshape(value.shape) for (name, value), part in parts}


def _serve(
    end: Connection,
    config: RunConfig,
    kind: str,
    shared: Any,
    number: int,
) -> None:
    """Train the clients of one process, round after round."""
    experiment = open_experiment(config)
    trainer = TRAINERS[kind](experiment.task, experiment.arrays.train)
    arrays = initial_parameters(config.task, seed=config.seed)
    flat, *sums = _vectors(shared, sum(value.size for value in arrays.values()))
    total = sums[number]
    model, added = _views(flat, arrays), _views(total, arrays)
    end.send("ready")
    while True:
        try:
            server_round, clients = end.recv()
        except EOFError:
            return
        total[:] = 0
        for client in clients:
            result = trainer.train(
                model,
                experiment.split.client(client),
                lr=config.local_lr,
                seed=(config.seed, client, server_round),
                steps=config.local_steps,
                batch=config.batch_size,
            )
            for name, value in result.parameters.items():
                added[name] += value - model[name]
        end.send("done")
