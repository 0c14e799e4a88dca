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
from fedau_flwr.contribution import encode
from fedau_flwr.secure import FixedPoint, SecureSum, SecureSumMod

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


@pytest.fixture
def simulate():
    # Ray's sockets need a short path, which pytest's own folders are not.
    with tempfile.TemporaryDirectory(prefix="ray") as folder:

        def run(server: ServerApp, client: ClientApp) -> None:
            run_simulation(
                server,
                client,
                num_supernodes=CLIENTS,
                backend_config={
                    "client_resources": {"num_cpus": 1},
                    "init_args": {"num_cpus": 2, "_temp_dir": folder},
                },
            )

        yield run


def test_our_secure_sum(simulate):
    server, client = ServerApp(), ClientApp(mods=[SecureSumMod(), FedAUMod()])
    results = []

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = FedAU(CLIENTS, min_available_nodes=CLIENTS, summation=SecureSum())
        model = encode({"x": np.zeros(6, np.float32)})
        results.append(strategy.start(grid, model, num_rounds=ROUNDS, timeout=60))
        results.append(strategy.ledger.counted)

    @client.train()
    def train(message: Message, context: Context) -> Message:
        x = step(message.content["arrays"]["x"].numpy(), context)
        return Message(RecordDict({"arrays": encode({"x": x})}), reply_to=message)

    simulate(server, client)
    result, counted = results
    error = np.abs(result.arrays["x"].numpy() - expected()).max()
    assert error < ROUNDS * FixedPoint().step + 1e-6
    assert list(counted.values()) == [ROUNDS] * CLIENTS


class LegacyClient(FedAUMixin, NumPyClient):
    def __init__(self, context: Context):
        self.context = context

    def fit(self, parameters, config):
        return [step(parameters[0], self.context)], 17, {}


def test_flowers_secaggplus(simulate):
    server = ServerApp()
    client = ClientApp(
        lambda context: LegacyClient(context).with_context(context).to_client(),
        mods=[secaggplus_mod],
    )
    models = []
    strategies = []

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = legacy.FedAU(
            CLIENTS,
            min_fit_clients=CLIENTS,
            min_available_clients=CLIENTS,
            initial_parameters=ndarrays_to_parameters([np.zeros(6, np.float32)]),
            evaluate_fn=lambda number, arrays, config: models.append(arrays[0]) or (0.0, {}),
        )
        strategies.append(strategy)
        workflow = DefaultWorkflow(fit_workflow=SecAggPlusWorkflow(CLIENTS, 3, max_weight=1.0))
        workflow(
            grid,
            LegacyContext(
                context=context, config=ServerConfig(num_rounds=ROUNDS), strategy=strategy
            ),
        )

    simulate(server, client)
    # Flower rounds a mean of values within ±8 to 2^22 levels.
    assert np.abs(models[-1] - expected()).max() < ROUNDS * 16 / 2**22 + 1e-6
    assert list(strategies[0].ledger.counted.values()) == [ROUNDS] * CLIENTS
