"""What a worker process keeps between messages: data, one network, the clients' states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, MessageType

from fedau_flwr.arrays import Arrays
from fedau_flwr.client.participant import Participant
from fedau_flwr.client.store import Store
from fedau_flwr.client.update import Disposable
from fedau_flwr.wire.requests import HOSTED, SAFE, Refusal
from simulations.config import RunConfig
from simulations.nodes.batches import CONTINUED, Turns
from simulations.nodes.client_states import MARK, ClientStates
from simulations.nodes.evaluation import SampleResults
from simulations.runs.experiment import open_experiment

LR = "lr"
HELLO = "hello"
"""Record of a query that asks a node what the run starts from."""
STATES = "client-states"
"""Directory of the clients' states; part of the message, since the server may have chosen it."""


def check_simulated(message: Message, node_config: Mapping[str, Any]) -> None:
    """Refuse what only nodes of a simulation do: it would serve whoever sends a deployed node that.

    In a simulation a node is told its number and nothing else, and server and nodes share the
    directory of the clients' states, which a server elsewhere cannot have made.
    """
    states = message.content.config_records.get("config", ConfigRecord()).get(STATES)
    evaluates = message.metadata.message_type.split(".", 1)[0] == MessageType.EVALUATE
    asks = HELLO in message.content
    if states is None and not evaluates and not asks:
        return
    what = "an evaluate message" if evaluates else f"{HELLO if asks else STATES} in a message"
    if deployed := sorted(node_config.keys() - {"partition-id", "num-partitions"}):
        raise Refusal(f"This node is deployed, having {deployed}: it does not answer {what}.")
    if states is not None and not (Path(str(states)) / MARK).is_file():
        raise Refusal(f"{STATES} is {states!r}, but must be what a simulation has made.")


class Worker:
    """Trains and evaluates for one run."""

    def __init__(self, config: RunConfig) -> None:
        # torch takes seconds. Flower's engine loads the ClientApp before it starts Ray, which need
        # not wait for that.
        from simulations.nodes.evaluator import Evaluator  # noqa: PLC0415
        from simulations.nodes.resident import ResidentModel  # noqa: PLC0415
        from simulations.nodes.trainer import LocalTrainer  # noqa: PLC0415

        self.config = config
        self.experiment = open_experiment(config)
        task = self.experiment.task
        model = ResidentModel(task, device=config.device, kernel=config.kernel)
        train, per_batch = self.experiment.arrays.train, config.augmentation == "per-batch"
        self._trainer = LocalTrainer(task, train, augment_per_batch=per_batch, model=model)
        self._evaluator = Evaluator(task, model=model)
        continued = config.batches == CONTINUED
        self._turns = Turns(self.experiment.process) if continued else None
        self._states: tuple[str, ClientStates] | None = None

    def train(self, client: int, model: Arrays, config: Mapping[str, Any]) -> Arrays:
        """Return the model after the client's local steps in a round."""
        own, number = self.config, int(config["server-round"])
        turn = None if self._turns is None else int(self._turns.before(number - 1)[client])
        held, seed = self.experiment.split.client(client), (own.seed, client, number)
        how = {"steps": own.local_steps, "batch": own.batch_size}
        lr = float(config[LR])
        result = self._trainer.train(model, held, lr=lr, seed=seed, turn=turn, **how)
        return Disposable(result.parameters)

    def examples(self, client: int) -> int:
        """Return how many samples a client holds."""
        return int(self.experiment.split.sizes[client])

    def store(self, client: int, config: Mapping[str, Any]) -> Store:
        """Return where a client's state is kept."""
        return self._states_in(config).client(client, int(config.get(SAFE, 0)))

    def _states_in(self, config: Mapping[str, Any]) -> ClientStates:
        directory = str(config[STATES])
        if self._states is None or self._states[0] != directory:
            shared = 0 if self.config.protection.keeps_releases else self.config.clients
            self._states = (directory, ClientStates(Path(directory), shared))
        return self._states[1]

    @contextmanager
    def participants(self, config: Mapping[str, Any]) -> Iterator[Callable[[int], Participant]]:
        """Provide the side of the protocol of each client that a message addresses."""
        clients, safe = config[HOSTED], int(config.get(SAFE, 0))
        with self._states_in(config).together(clients, safe) as stores:
            weighting, transforms = self.experiment.weighting, self.config.algorithm.transforms
            yield lambda client: Participant(stores[client], weighting(client), transforms)

    def evaluate(self, model: Arrays, part: str, start: int, stop: int) -> SampleResults:
        """Evaluate the samples `start` to `stop` of the training or the test set."""
        return self._evaluator.samples(model, getattr(self.experiment.arrays, part), start, stop)

    def weighted_mean(
        self, clients: list[int], model: Arrays, config: Mapping[str, Any]
    ) -> tuple[Arrays, int]:
        """Return the example-weighted mean of the trained models, and the examples behind it."""
        total = {name: np.zeros(value.shape, np.float64) for name, value in model.items()}
        examples = 0
        for client in clients:
            size = self.examples(client)
            if size == 0:
                continue
            for name, value in self.train(client, model, config).items():
                total[name] += size * value.astype(np.float64)
            examples += size
        if examples == 0:
            return model, 0
        mean = {key: (value / examples).astype(model[key].dtype) for key, value in total.items()}
        return mean, examples


@lru_cache(maxsize=1)
def worker_for(config: RunConfig) -> Worker:
    """Return the resident worker of this process for a run."""
    return Worker(config)
