"""FedAU with a record of every round, checkpoints, and an end when a file ``stop`` appears."""

import json
import os
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context
from flwr.serverapp import Grid, ServerApp

from fedau_flwr import FedAU, SecureSum
from fedau_flwr.server.deadlines import DeadlineGrid
from fedau_flwr.server.summation import PlainSum, Summation
from quadratics import problem

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    directory = Path(str(config["directory"]))
    every = int(config["checkpoint-every"])
    grid = DeadlineGrid(grid)
    strategy = FedAU(int(config["num-clients"]), summation=summation(context))
    model = problem.initial_model()
    if config["resume"]:
        state = json.loads((directory / "checkpoint.json").read_text())
        state["ledger"]["counted"] = {int(k): v for k, v in state["ledger"]["counted"].items()}
        strategy.load_state_dict(state)
        model = np.load(directory / f"model-{strategy.ledger.round}.npy")
    elif every:
        strategy.checkpointed(0)
    # Only to begin with: later on, a round goes ahead with whoever is there.
    while not config["resume"] and len(list(grid.get_node_ids())) < int(config["wait-for"]):
        time.sleep(0.2)
    arrays = ArrayRecord([model])
    for server_round in range(strategy.ledger.round + 1, int(config["num-server-rounds"]) + 1):
        hasty = str(server_round) in str(config["hasty-rounds"]).split()
        deadline = float(config["deadline"])
        if hasty:
            deadline = max(float(config["hasty-deadline"]), 3 * slowest(directory))
        strategy.round_timeout = deadline
        messages = strategy.configure_train(server_round, arrays, ConfigRecord(), grid)
        replies = grid.send_and_receive(messages, timeout=deadline)
        arrays, _ = strategy.aggregate_train(server_round, replies)
        record(directory, strategy, arrays, deadline=deadline, hasty=hasty)
        if every and server_round % every == 0:
            checkpoint(directory, strategy, arrays)
        if (directory / "stop").exists():
            break
    np.save(directory / "model.npy", arrays.to_numpy_ndarrays()[0])


def summation(context: Context) -> Summation:
    """Return a secure sum if the run config asks for it."""
    seconds = float(context.run_config["exchange-seconds"])
    if not seconds:
        return PlainSum()
    # The seed makes the rounding repeat, so that a test can say what the sum must be.
    roster = str(context.run_config["roster"]) or None
    return SecureSum(exchange_timeout=seconds, seed=problem.ROUNDING_SEED, roster=roster)


def slowest(directory: Path) -> float:
    """Return how long a round takes in which all have time to reply: a busy machine needs more."""
    path = directory / "rounds.jsonl"
    entries = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return max((entry["seconds"] for entry in entries if not entry["hasty"]), default=0.0)


def record(
    directory: Path, strategy: FedAU, arrays: ArrayRecord, *, deadline: float, hasty: bool
) -> None:
    """Append who was counted in the round that has just ended, how it went, and the model."""
    ledger = strategy.ledger
    counted = [client for client, last in ledger.counted.items() if last == ledger.round]
    line = {"round": ledger.round, "attempt": len(ledger.attempts), "counted": counted}
    line |= {"deadline": deadline, "hasty": hasty, "seconds": strategy.last_round.seconds}
    line["model"] = arrays.to_numpy_ndarrays()[0].tolist()
    with (directory / "rounds.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def checkpoint(directory: Path, strategy: FedAU, arrays: ArrayRecord) -> None:
    server_round = strategy.ledger.round
    np.save(directory / f"model-{server_round}.npy", arrays.to_numpy_ndarrays()[0])
    temporary = directory / "checkpoint.tmp"
    temporary.write_text(json.dumps(strategy.state_dict()))
    os.replace(temporary, directory / "checkpoint.json")
    strategy.checkpointed(server_round)
