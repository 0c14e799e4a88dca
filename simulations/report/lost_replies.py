"""What lost replies do to the weights, and what the server's confirmation does about it.

Twenty clients with quadratic objectives `½(x − a_n)²` speak the real participation protocol;
the more often a client takes part, the more of its replies are lost. A client that trusts its
own record believes that it took part each time, so its weight is too small for what arrives.

    python -m simulations.report.lost_replies

runs all three ways of weighting and writes simulations/results/lost-replies/.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from fedau_flwr import FedAUWeighting, UnitWeighting
from fedau_flwr.arrays import Arrays
from fedau_flwr.client.participant import Participant
from fedau_flwr.client.store import Store, Version
from fedau_flwr.server.ledger import Ledger
from fedau_flwr.weighting import Weighting
from fedau_flwr.wire.parts import UPDATE
from fedau_flwr.wire.requests import Request

CLIENTS = 20
PARTICIPATION = np.linspace(0.2, 0.5, CLIENTS)
LOSS = np.linspace(0.0, 0.7, CLIENTS)
OPTIMA = np.linspace(-1.0, 1.0, CLIENTS)
STEP_SIZE = 5e-3
RESULTS = Path(__file__).parents[1] / "results" / "lost-replies"


class _Kept(Store):
    """Versions in this process."""

    def __init__(self) -> None:
        self._versions: list[Version] = []

    def load(self, training: str) -> list[Version]:
        """Return the versions."""
        del training
        return list(self._versions)

    def save(self, training: str, versions: Sequence[Version]) -> None:
        """Replace the versions."""
        del training
        self._versions = list(versions)


def _to(optimum: Arrays, start: Arrays) -> Arrays:
    """Train all the way to a client's optimum."""
    del start
    return optimum


def distance_from_the_mean(weighting: Weighting, *, confirmed: bool, rounds: int = 6_000) -> float:
    """Return how far from the plain mean of the optima (0) the later iterates are on average.

    Without `confirmed`, messages lack the last counted round, and clients trust themselves.
    """
    rng = np.random.default_rng(6)
    clients = [Participant(_Kept(), weighting) for _ in range(CLIENTS)]
    ledger = Ledger()
    x, late = 0.0, []
    for server_round in range(1, rounds + 1):
        ledger.open(server_round)
        total = 0.0
        asked = np.flatnonzero(rng.random(CLIENTS) < PARTICIPATION)
        arrives = rng.random(CLIENTS) >= LOSS
        for client in asked.tolist():
            request = ledger.request(client)
            if not confirmed:
                request = Request(server_round, ledger.training, client)
            optimum = {"x": OPTIMA[client : client + 1]}
            sent = clients[client].contribute(request, {"x": np.array([x])}, partial(_to, optimum))
            if arrives[client]:
                total += float(sent[UPDATE]["x"][0])
                ledger.count([client])
        x += STEP_SIZE * total / CLIENTS
        if 2 * server_round >= rounds:
            late.append(x)
    return float(abs(np.mean(late)))


def main() -> None:
    """Write the distances as JSON and as a Markdown table."""
    distances = {
        "FedAU, confirmed by the server": distance_from_the_mean(
            FedAUWeighting(None), confirmed=True
        ),
        "FedAU, clients trust their own record": distance_from_the_mean(
            FedAUWeighting(None), confirmed=False
        ),
        "equal weights (average all)": distance_from_the_mean(UnitWeighting(), confirmed=True),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "distances.json").write_text(json.dumps(distances, indent=1) + "\n")
    rows = [f"| {name} | {distance:.3f} |" for name, distance in distances.items()]
    table = "\n".join(["| weighting | distance from the unbiased optimum |", "|---|---|", *rows])
    (RESULTS / "table.md").write_text(table + "\n")
    print(table)


if __name__ == "__main__":
    main()
