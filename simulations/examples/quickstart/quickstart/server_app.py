"""A server that adds up, while clients come and go."""

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from fedau_flwr import AvailabilityGrid, Bernoulli, FedAU

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run FedAU and say where the model is in the second half of the rounds."""
    rounds = int(context.run_config["num-server-rounds"])
    probability = [1.0] * 5 + [0.1] * 5  # not in an app of your own, where clients really come
    grid = AvailabilityGrid(grid, Bernoulli(probability, seed=1))
    grid.wait_for_clients()
    seen: list[float] = []

    def note(_server_round: int, arrays: ArrayRecord) -> None:
        seen.append(arrays.to_numpy_ndarrays()[0].item())

    strategy = FedAU(num_clients=10)
    strategy.start(grid, ArrayRecord([np.zeros(1)]), num_rounds=rounds, evaluate_fn=note)
    end = np.mean(seen[rounds // 2 :])
    print(f"The model is around {end:.1f}: all clients' mean is 4.5, the frequent ones' 2.0")
