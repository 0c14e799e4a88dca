"""What limits a run at a million clients and a thousand participants per round, by arithmetic.

Only sizes that follow from the program and times that the rows have measured enter.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedau_flwr import FedAUWeighting
from fedau_flwr.availability import Bernoulli
from fedau_flwr.server.ledger import Ledger
from fedau_flwr.weight_state import WeightStates
from simulations.bench.report import Row
from simulations.bench.settings import BenchSettings
from simulations.bench.side_by_side import Say, milliseconds
from simulations.nodes.client_states import RECORD_BYTES, VECTORS_PER_CLIENT
from simulations.nodes.resident import initial_parameters
from simulations.tasks.images.task import IMAGE_SHAPE

CLIENTS, PARTICIPANTS = 1_000_000, 1_000
_BOOKS = 6
"""Numbers of 8 bytes that the server keeps per client: two counts and a `WeightState`."""


def weights_row(settings: BenchSettings, say: Say) -> Row:
    """Advance all weights of a large population by a round."""
    say("a round of weights")
    weighting, rng = FedAUWeighting(), np.random.default_rng(1)
    states = WeightStates.repeat(weighting.initial(), settings.weights)

    def advance(participated: NDArray[np.bool_]) -> None:
        nonlocal states
        states = weighting.advance_all(states, participated)

    rounds = (rng.random(settings.weights) < 0.1 for _ in range(20))
    return Row("weights", milliseconds(advance, rounds), (settings.weights,))


def million(settings: BenchSettings, rows: Sequence[Row]) -> dict[str, float]:
    """Return the parts of a round, and what lies in memory and on disks."""
    by_key = {row.key: row for row in rows}
    details, profile = by_key["hosts"].details, by_key["hosts"].profile
    task = settings.config.task
    model = 4 * sum(value.size for value in initial_parameters(task, seed=1).values())
    core_seconds = details["bare-seconds"] * settings.workers / details["participants"]
    message = sum(v for name, v in profile.items() if name.startswith("per message")) / 1e3
    draw = Bernoulli(np.full(CLIENTS, PARTICIPANTS / CLIENTS), seed=1).active
    return {
        "clients": CLIENTS,
        "participants": PARTICIPANTS,
        "core-seconds-per-participant": core_seconds,
        "training-seconds-on-these-cores": PARTICIPANTS * core_seconds / settings.workers,
        "training-seconds-on-64-cores": PARTICIPANTS * core_seconds / 64,
        "server-seconds-with-64-hosts": 64 * message,
        "server-seconds-with-one-client-per-node": PARTICIPANTS * message,
        "megabytes-per-round-with-64-hosts": 2 * 64 * model / 1e6,
        "megabytes-per-round-with-one-client-per-node": 2 * PARTICIPANTS * model / 1e6,
        "draw-milliseconds": milliseconds(draw, range(5)),
        "weights-milliseconds": by_key["weights"].value * CLIENTS / settings.weights,
        "states-megabytes": CLIENTS * RECORD_BYTES / 1e6,
        "books-megabytes": CLIENTS * 8 * _BOOKS / 1e6,
        "ledger-megabytes-once-all-came": _ledger_megabytes(),
        "class-shares-megabytes": CLIENTS * 8 * task.num_classes / 1e6,
        "data-gigabytes-at-16-samples": 16 * CLIENTS * np.prod(IMAGE_SHAPE) / 1e9,
        "mifa-terabytes-once-all-came": CLIENTS * VECTORS_PER_CLIENT * model / 1e12,
    }


def _ledger_megabytes() -> float:
    """Return the memory of the server's list of who was counted when."""
    tracemalloc.start()
    ledger = Ledger(round=1)
    ledger.count(range(CLIENTS))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size / 1e6
