"""The ServerApp: puts the parts of a run together and lets the round loop run them."""

from __future__ import annotations

import logging
import math
import time

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedau_flwr.availability import AvailabilityGrid, HostGrid
from simulations.config import ConfigError, RunConfig
from simulations.experiment import Experiment, open_experiment
from simulations.loop import RoundLoop
from simulations.methods import build_strategy
from simulations.prompt_grid import prompt
from simulations.resident import initial_parameters
from simulations.run_directory import RunDirectory
from simulations.run_log import run_log

log = logging.getLogger("flwr.simulations")

CONNECT_SECONDS = 60.0

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the experiment that the run config describes."""
    run_experiment(grid, RunConfig.parse(context.run_config))


def run_experiment(grid: Grid, config: RunConfig) -> RunDirectory:
    """Run one experiment over the nodes of `grid` and return its directory."""
    run = RunDirectory.open(config)
    with run_log(run.log_file):
        try:
            experiment = open_experiment(config)
            if experiment.split.empty.size:
                log.warning(
                    "%d of %d clients hold no samples and contribute nothing when they come.",
                    experiment.split.empty.size,
                    config.clients,
                )
            present = connect(grid, experiment)
            strategy = build_strategy(config, present)
        except ValueError as error:
            run.finish("failed", 0, str(error))
            raise
        log.info("The results go to %s.", run.path)
        model = initial_parameters(experiment.spec, seed=config.seed)
        RoundLoop(experiment, present, strategy, model, run).run()
    return run


def connect(grid: Grid, experiment: Experiment) -> AvailabilityGrid:
    """Return the grid under the run's participation, once all of its nodes have said who they are.

    Flower starts a ServerApp while it still adds nodes. A node answers only when all are there.
    """
    grid = prompt(grid)
    config = experiment.config
    kind = AvailabilityGrid if config.clients_per_node == 1 else HostGrid
    present = kind(grid, experiment.process, loss=config.reply_loss, seed=config.seed)
    deadline = time.monotonic() + CONNECT_SECONDS
    while not present.everyone().get_node_ids() and time.monotonic() < deadline:
        time.sleep(0.05)
    nodes = len(present.everyone().get_node_ids())
    wanted = math.ceil(config.clients / config.clients_per_node) if config.clients_per_node else 0
    if nodes == 0 or (wanted and nodes != wanted):
        need = f"{wanted} SuperNodes" if wanted else "at least one SuperNode"
        raise ConfigError(
            f"clients-per-node is {config.clients_per_node} for {config.clients} clients, which "
            f'needs {need}, but {nodes} are there: add --federation-config "num-supernodes=…".'
        )
    return present
