"""The ServerApp: puts the parts of a run together and lets the round loop run them.

On Flower's simulation engine it runs an experiment with simulated participation, on a deployment
it trains with the nodes that are really there.
"""

import logging
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

from fedau_flwr import RoundLoop, _flower
from fedau_flwr.availability import AvailabilityGrid, HostGrid
from fedau_flwr.server.callbacks import Callback
from fedau_flwr.server.loop import RunFailure
from fedau_flwr.wire.records import encode
from simulations.config import ConfigError, RunConfig
from simulations.nodes.heap import keep_freed_memory
from simulations.nodes.worker import HELLO
from simulations.registry import check
from simulations.runs.directory import RunDirectory
from simulations.runs.event_grid import event_driven
from simulations.runs.experiment import Experiment, open_experiment
from simulations.runs.loops import deployment_loop, simulation_loop
from simulations.runs.measurement import check_replies

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
    with ExitStack() as engine:

        def prepare(run: RunDirectory) -> tuple[RoundLoop, ArrayRecord]:
            quick = engine.enter_context(event_driven(grid))
            start = await_engine(quick)
            kernel, why = (str(start.config_records["steps"][key]) for key in ("kernel", "why"))
            steps = "native code" if kernel == "native" else f"torch, because {why}"
            log.info("Local steps are made by %s.", steps)
            settled = replace(config, kernel=kernel)
            run.settle(settled)
            experiment = open_experiment(settled)
            if notice := experiment.split.notice():
                log.warning("%s", notice)
            loop = simulation_loop(experiment, connect(quick, experiment), run, callbacks)
            return loop, start.array_records["arrays"]

        return train(config, prepare)


def run_deployment(
    grid: Grid, config: RunConfig, callbacks: Iterable[Callback] = ()
) -> RunDirectory:
    """Train with the nodes of `grid` and return the run's directory."""
    rule = "another one on a deployment, where nobody knows what it needs"
    check("method", config.method, config.algorithm.deployable, rule)
    config = replace(config, pattern="deployment", reply_loss=0.0)

    def prepare(run: RunDirectory) -> tuple[RoundLoop, ArrayRecord]:
        # torch takes seconds and memory, which the server of a simulation does without.
        from simulations.nodes.resident import initial_parameters  # noqa: PLC0415

        check_population(grid, config)
        run.settle(config)
        loop = deployment_loop(grid, config, run, callbacks)
        return loop, encode(initial_parameters(config.task, seed=config.seed))

    return train(config, prepare, every_round=True)


def train(
    config: RunConfig,
    prepare: Callable[[RunDirectory], tuple[RoundLoop, ArrayRecord]],
    *,
    every_round: bool = False,
) -> RunDirectory:
    """Run the loop that `prepare` makes, from the model that it returns with it.

    The directory also says why it could not be made.
    """
    run = RunDirectory.open(config)
    with run.held(), run_log(run.log_file, every_round=every_round):
        try:
            loop, model = prepare(run)
        except (ValueError, OSError, RunFailure) as error:
            run.finish("failed", 0, str(error))
            raise
        log.info("The results go to %s.", run.path)
        loop.run(model, config.rounds)
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


def await_engine(grid: Grid) -> RecordDict:
    """Wait until the nodes answer, and return what they say the run starts from.

    It is asked of as many as can work at a time, so that their workers are ready at the same time.
    Flower runs the ServerApp in a thread while it still adds nodes and starts Ray, and a node
    answers only when both are done. Starting Ray forks this process, which must not happen while
    another thread multiplies matrices: OpenBLAS then waits for its own threads forever.
    """
    deadline = time.monotonic() + CONNECT_SECONDS
    while not (nodes := list(grid.get_node_ids())):
        if time.monotonic() > deadline:
            raise ConfigError(f"No SuperNode has connected within {CONNECT_SECONDS:g} seconds.")
        time.sleep(0.05)
    left, content = deadline - time.monotonic(), RecordDict({HELLO: ConfigRecord()})
    asked = nodes[: os.cpu_count()]
    queries = [Message(content, node, MessageType.QUERY, ttl=left) for node in asked]
    replies = list(grid.send_and_receive(queries, timeout=left))
    check_replies(replies)
    if not replies:
        raise ConfigError(f"No SuperNode has answered within {CONNECT_SECONDS:g} seconds.")
    return replies[0].content


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
