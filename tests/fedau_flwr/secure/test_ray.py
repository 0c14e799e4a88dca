"""Secure sums on Flower's Ray engine: ours, and Flower's own SecAgg+ around `fedau_flwr.legacy`."""

import tempfile

import numpy as np
import pytest
from flwr.app import Context, Message, RecordDict
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import LegacyContext, ServerConfig
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from fedau_flwr import FedAU, FedAUMixin, FedAUMod, legacy
from fedau_flwr.secure import FixedPoint, SecureSum, SecureSumMod
from fedau_flwr.secure.mod import RECORD
from fedau_flwr.wire.records import encode

CLIENTS = 4
ROUNDS = 2
TARGETS = np.random.default_rng(0).normal(0, 1, (CLIENTS, 6)).astype(np.float32)


def step(x: np.ndarray, context: Context) -> np.ndarray:
    return x + np.float32(0.5) * (TARGETS[context.node_config["partition-id"]] - x)


def expected() -> np.ndarray:
    x = np.zeros(6)
    for _ in range(ROUNDS):
        x = x + 0.5 * (TARGETS.astype(np.float64).mean(axis=0) - x)
    return x


def our_app() -> ClientApp:
    app = ClientApp(mods=[SecureSumMod(), FedAUMod()])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        x = step(message.content["arrays"]["x"].numpy(), context)
        return Message(RecordDict({"arrays": encode({"x": x})}), reply_to=message)

    return app


def run_ours(grid: Grid) -> tuple[np.ndarray, list[int]]:
    strategy = FedAU(CLIENTS, min_available_nodes=CLIENTS, summation=SecureSum())
    model = encode({"x": np.zeros(6, np.float32)})
    result = strategy.start(grid, model, num_rounds=ROUNDS, timeout=60)
    return result.arrays["x"].numpy(), list(strategy.ledger.counted.values())


class LegacyClient(FedAUMixin, NumPyClient):
    def __init__(self, context: Context):
        self.context = context

    def fit(self, parameters, config):
        return [step(parameters[0], self.context)], 17, {}


def legacy_app() -> ClientApp:
    return ClientApp(
        lambda context: LegacyClient(context).with_context(context).to_client(),
        mods=[secaggplus_mod],
    )


def run_secaggplus(grid: Grid, context: Context) -> tuple[np.ndarray, list[int]]:
    models = []
    strategy = legacy.FedAU(
        CLIENTS,
        min_fit_clients=CLIENTS,
        min_available_clients=CLIENTS,
        initial_parameters=ndarrays_to_parameters([np.zeros(6, np.float32)]),
        evaluate_fn=lambda number, arrays, config: models.append(arrays[0]) or (0.0, {}),
    )
    workflow = DefaultWorkflow(fit_workflow=SecAggPlusWorkflow(CLIENTS, 3, max_weight=1.0))
    config = ServerConfig(num_rounds=ROUNDS)
    workflow(grid, LegacyContext(context=context, config=config, strategy=strategy))
    return models[-1], list(strategy.ledger.counted.values())


def either_app() -> ClientApp:
    """Let one session of the engine, which takes long to start, serve both protocols."""
    ours, theirs = our_app(), legacy_app()

    def dispatch(message: Message, context: Context, call_next) -> Message:
        app = ours if RECORD in message.content.config_records else theirs
        return app(message, context)

    app = ClientApp(mods=[dispatch])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        raise AssertionError("the mod answers every message")

    return app


@pytest.mark.engine
def test_both_protocols_equal_the_plain_sum_within_quantisation():
    server = ServerApp()
    results = {}

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        results["ours"] = run_ours(grid)
        results["theirs"] = run_secaggplus(grid, context)

    # Ray's sockets need a short path, which pytest's own folders are not.
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        run_simulation(
            server,
            either_app(),
            num_supernodes=CLIENTS,
            backend_config={
                "client_resources": {"num_cpus": 1},
                "init_args": {"num_cpus": 2, "_temp_dir": folder},
            },
        )
    model, counted = results["ours"]
    assert np.abs(model - expected()).max() < ROUNDS * FixedPoint().step + 1e-6
    assert counted == [ROUNDS] * CLIENTS
    model, counted = results["theirs"]
    # Flower rounds a mean of values within ±8 to 2^22 levels.
    assert np.abs(model - expected()).max() < ROUNDS * 16 / 2**22 + 1e-6
    assert counted == [ROUNDS] * CLIENTS
