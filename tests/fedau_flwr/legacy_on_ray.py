"""Runs the legacy pair on Flower's Ray engine and prints where it ended, as JSON."""

import json
import sys

import numpy as np
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.simulation import run_simulation

from fedau_flwr import legacy
from tests.fedau_flwr.test_legacy import TARGETS, Client


def client_fn(context):
    return Client(TARGETS[context.node_config["partition-id"]]).with_context(context).to_client()


def main(ray_directory):
    models = []
    strategy = legacy.FedAU(
        num_clients=3,
        min_fit_clients=3,
        min_available_clients=3,
        initial_parameters=ndarrays_to_parameters([np.full(2, 2.0)]),
        evaluate_fn=lambda r, arrays, config: models.append(arrays[0]) or (0.0, {}),
    )
    run_simulation(
        ServerApp(
            server_fn=lambda context: ServerAppComponents(
                strategy=strategy, config=ServerConfig(num_rounds=5)
            )
        ),
        ClientApp(client_fn),
        num_supernodes=3,
        backend_config={
            "client_resources": {"num_cpus": 1},
            "init_args": {"num_cpus": 2, "_temp_dir": ray_directory},
        },
    )
    counted = list(strategy.ledger.counted.values())
    print(json.dumps({"model": models[-1].tolist(), "counted": counted}))


if __name__ == "__main__":
    main(sys.argv[1])
