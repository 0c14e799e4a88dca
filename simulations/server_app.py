"""The ServerApp: puts the parts of a run together and lets the round loop run them.

On Flower's simulation engine it runs an experiment with simulated participation, on a deployment
it trains with the nodes that are really there.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable
from contextlib import ExitStack

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

from fedau_flwr import RoundLoop, _flower
from fedau_flwr.availability import AvailabilityGrid, HostGrid
from fedau_flwr.server.callbacks import Callback
from simulations.config import ConfigError, RunConfig
from simulations.runs.deployment import run_deployment
from simulations.runs.directory import RunDirectory
from simulations.runs.event_grid import event_driven
from simulations.runs.experiment import Experiment, open_experiment
from simulations.runs.simulation import simulation_loop
from simulations.runs.training import build_strategy, train

log = logging.getLogger("flwr.simulations")

CONNECT_SECONDS = 300.0

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the experiment that the run config describes, or train on a deployment."""
    config = RunConfig.parse(context.run_config)
    if isinstance(grid, _flower.HttpGrid) or not config.participation.simulated:
        run_deployment(grid, config)
    else:
        run_experiment(grid, config)


def run_experiment(
    grid: Grid, config: RunConfig, callbacks: Iterable[Callback] = ()
) -> RunDirectory:
    """Run one experiment over the nodes of `grid` and return its directory.

    More `callbacks` than a run's own come before these.
    """
    with ExitStack() as engine:

        def prepare(run: RunDirectory) -> RoundLoop:
            await_engine(grid)
            experiment = open_experiment(config)
            if notice := experiment.split.notice():
                log.warning("%s", notice)
            present = connect(engine.enter_context(event_driven(grid)), experiment)
            strategy = build_strategy(config, present)
            return simulation_loop(experiment, present, strategy, run, callbacks)

        return train(config, prepare)


def await_engine(grid: Grid) -> None:
    """Wait until a node answers.

    Flower runs the ServerApp in a thread while it still adds nodes and starts Ray, and a node
    answers only when both are done. Starting Ray forks this process, which must not happen while
    another thread multiplies matrices: OpenBLAS then waits for its own threads forever.
    """
    deadline = time.monotonic() + CONNECT_SECONDS
    while not (nodes := list(grid.get_node_ids())):
        if time.monotonic() > deadline:
            raise ConfigError(f"No SuperNode has connected within {CONNECT_SECONDS:g} seconds.")
        time.sleep(0.05)
    left = deadline - time.monotonic()
    query = Message(RecordDict({"hello": ConfigRecord()}), nodes[0], MessageType.QUERY, ttl=left)
    grid.send_and_receive([query], timeout=left)


def connect(grid: Grid, experiment: Experiment) -> AvailabilityGrid:
    """Return the grid under the run's participation, with its nodes identified."""
    config = experiment.config
    kind = AvailabilityGrid if config.clients_per_node == 1 else HostGrid
    present = kind(grid, experiment.process, loss=config.reply_loss, seed=config.seed)
    nodes = len(present.everyone().get_node_ids())
    wanted = math.ceil(config.clients / config.clients_per_node) if config.clients_per_node else 0
    if wanted and nodes != wanted:
        raise ConfigError(
            f"clients-per-node is {config.clients_per_node} for {config.clients} clients, which "
            f"needs {wanted} SuperNodes, but {nodes} are there: add "
            f'--federation-config "num-supernodes={wanted}".'
        )
    return present
