"""The ServerApp: puts the parts of a run together and lets the round loop run them.

On Flower's simulation engine it runs an experiment with simulated participation, on a deployment
it trains with the nodes that are really there.
"""

import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

from fedau_flwr import RoundLoop, _flower
from fedau_flwr.availability import AvailabilityGrid, HostGrid
from fedau_flwr.server.callbacks import Callback
from fedau_flwr.wire.records import encode
from simulations.config import ConfigError, RunConfig
from simulations.nodes.resident import initial_parameters, keep_freed_memory, used_kernel
from simulations.registry import check
from simulations.runs.directory import RunDirectory
from simulations.runs.event_grid import event_driven
from simulations.runs.experiment import Experiment, open_experiment
from simulations.runs.loops import deployment_loop, simulation_loop

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
    keep_freed_memory()
    kernel, why = used_kernel(config.task, device=config.device, kernel=config.kernel)
    config = replace(config, kernel=kernel)
    with ExitStack() as engine:

        def prepare(run: RunDirectory) -> RoundLoop:
            steps = "native code" if kernel == "native" else f"torch, because {why}"
            log.info("Local steps are made by %s.", steps)
            await_engine(grid)
            experiment = open_experiment(config)
            if notice := experiment.split.notice():
                log.warning("%s", notice)
            present = connect(engine.enter_context(event_driven(grid)), experiment)
            return simulation_loop(experiment, present, run, callbacks)

        return train(config, prepare)


def run_deployment(
    grid: Grid, config: RunConfig, callbacks: Iterable[Callback] = ()
) -> RunDirectory:
    """Train with the nodes of `grid` and return the run's directory."""
    rule = "another one on a deployment, where nobody knows what it needs"
    check("method", config.method, config.algorithm.deployable, rule)
    config = replace(config, pattern="deployment", reply_loss=0.0)

    def prepare(run: RunDirectory) -> RoundLoop:
        check_population(grid, config)
        return deployment_loop(grid, config, run, callbacks)

    return train(config, prepare, every_round=True)


def train(
    config: RunConfig, prepare: Callable[[RunDirectory], RoundLoop], *, every_round: bool = False
) -> RunDirectory:
    """Run the loop that `prepare` makes; the directory also says why it could not be made."""
    run = RunDirectory.open(config)
    with run_log(run.log_file, every_round=every_round):
        try:
            loop = prepare(run)
        except (ValueError, OSError) as error:
            run.finish("failed", 0, str(error))
            raise
        log.info("The results go to %s.", run.path)
        loop.run(encode(initial_parameters(config.task, seed=config.seed)), config.rounds)
    return run


@contextmanager
def run_log(path: Path, *, every_round: bool) -> Iterator[None]:
    """Copy Flower's log to `path`.

    The lines that strategies write in every round are left out, but for our own if `every_round`.
    """
    flower, rounds = logging.getLogger("flwr"), logging.getLogger("flwr.fedau")
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setLevel(logging.INFO)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = rounds.level
    flower.addHandler(handler)
    flower.addFilter(_worth_a_line)
    if not every_round:
        rounds.setLevel(logging.WARNING)
    try:
        yield
    finally:
        flower.removeHandler(handler)
        flower.removeFilter(_worth_a_line)
        rounds.setLevel(level)
        handler.close()


def _worth_a_line(record: logging.LogRecord) -> bool:
    of_every_round = ("%s: Received", "configure_train:", "aggregate_train:")
    return not str(record.msg).startswith(of_every_round)


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


def check_population(grid: Grid, config: RunConfig) -> None:
    """Refuse a number of clients that is smaller than what is connected already."""
    connected = len(list(grid.get_node_ids()))
    rule = f"at least {connected}, the number of nodes that are connected"
    check("clients", config.clients, config.clients >= connected, rule)
    log.info(
        f"{connected} of {config.clients} clients are connected. The number of all clients is the "
        "run config's `clients`: too large a number makes the steps too small."
    )
