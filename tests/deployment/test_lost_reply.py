"""A reply that is lost on the way, and a record of everything that a client sends."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from simulations.deployment import Federation
from tests.deployment.app.quadratics import problem
from tests.deployment.conftest import APP
from tests.deployment.proxy import Proxy, Request

PUSH = "/v1/fleet/push-messages"
ROUNDS = 3
# Long enough for a reply on a busy machine, since a round with a lost reply lasts this long.
DEADLINE = 12.0


@dataclass
class Outcome:
    status: str
    log: str
    model: NDArray[np.float32]
    requests: list[Request]


@pytest.fixture(scope="module")
def outcome(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> Iterator[Outcome]:
    directory: Path = tmp_path_factory.mktemp("lost")
    result = directory / "model.npy"
    federation = Federation(directory, nodes=2, tls=False, environment=environment)
    with federation:
        federation.start_superlink()
        with Proxy(federation.address) as proxy:
            federation.nodes[1].superlink = proxy.address
            federation.start_nodes()
            cut = proxy.cut(PUSH, skip=1)
            run = federation.run(
                APP,
                config={
                    "num-server-rounds": ROUNDS,
                    "num-clients": 2,
                    "deadline": DEADLINE,
                    "result": str(result),
                },
            )
            assert cut.happened.wait(60.0)
            run.wait_for(f"[ROUND 3/{ROUNDS}]", timeout=60.0)
            cut.lifted.set()
            status = run.wait_finished(timeout=90.0)
        yield Outcome(status, run.output(), np.load(result), proxy.requests)


def test_only_the_round_of_the_lost_reply_goes_without_it(outcome: Outcome) -> None:
    assert outcome.status == "finished:completed"
    received = [
        line.split("Received ")[1] for line in outcome.log.splitlines() if "Received" in line
    ]
    assert received == [f"{count} results and 0 failures" for count in (2, 1, 2)]


def test_late_reply_does_not_reach_the_model(outcome: Outcome) -> None:
    model = problem.initial_model()
    for participants in ([0, 1], [0], [0, 1]):
        model = np.mean(
            [problem.train(model, client, step_size=0.1, steps=3) for client in participants],
            axis=0,
        )
    np.testing.assert_allclose(outcome.model, model, rtol=1e-6)


def test_record_is_complete(outcome: Outcome) -> None:
    paths = Counter(request.path for request in outcome.requests)
    assert paths[PUSH] >= ROUNDS + 1  # at least one retry of the one that was lost
    assert {path.rsplit("/", 1)[0] for path in paths} == {"/v1/fleet"}
    sent = b"".join(r.body for r in outcome.requests if r.path == "/v1/fleet/push-object")
    trained = problem.train(problem.initial_model(), 1, step_size=0.1, steps=3)
    assert trained.tobytes() in sent
