"""What lost replies do to the weights, and what the server's confirmation does about it.

Twenty clients with quadratic objectives `½(x − a_n)²` speak the real participation protocol;
the more often a client takes part, the more of its replies are lost. A client that trusts its
own record believes that it took part each time, so its weight is too small for what arrives.

    python -m simulations.report.lost_replies

runs all three ways of weighting and writes simulations/results/lost-replies/.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedau_flwr import FedAUWeighting, UnitWeighting
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

    _versions: Sequence[Version] = ()

    def load(self, training: str) -> list[Version]:
        return list(self._versions)

    def save(self, training: str, versions: Sequence[Version]) -> None:
        self._versions = versions


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
            model, optimum = {"x": np.array([x])}, {"x": OPTIMA[client : client + 1]}
            # Training goes all the way to a client's optimum.
            sent = clients[client].contribute(request, model, lambda _: optimum)  # noqa: B023
            if arrives[client]:
                total += float(sent[UPDATE]["x"][0])
                ledger.count([client])
        x += STEP_SIZE * total / CLIENTS
        if 2 * server_round >= rounds:
            late.append(x)
    return float(abs(np.mean(late)))


def main() -> None:
    """Write the distances as JSON and as a Markdown table."""
    far, fedau = distance_from_the_mean, FedAUWeighting(None)
    distances = {
        "FedAU, confirmed by the server": far(fedau, confirmed=True),
        "FedAU, clients trust their own record": far(fedau, confirmed=False),
        "equal weights (average all)": far(UnitWeighting(), confirmed=True),
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "distances.json").write_text(json.dumps(distances, indent=1) + "\n")
    rows = [f"| {name} | {distance:.3f} |" for name, distance in distances.items()]
    table = "\n".join(["| weighting | distance from the unbiased optimum |", "|---|---|", *rows])
    (RESULTS / "table.md").write_text(table + "\n")
    print(table)


if __name__ == "__main__":
    main()
