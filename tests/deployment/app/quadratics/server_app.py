"""Plain FedAvg; the final model goes to the file named by ``result``."""

from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from quadratics import problem

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    clients = int(config["num-clients"])
    strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=1, min_available_nodes=clients)
    result = strategy.start(
        grid,
        ArrayRecord([problem.initial_model()]),
        num_rounds=int(config["num-server-rounds"]),
        timeout=float(config["deadline"]),
    )
    (model,) = result.arrays.to_numpy_ndarrays()
    np.save(Path(str(config["result"])), model)
