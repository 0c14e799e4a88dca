"""Secure sums with a roster, with one node killed in each of the five exchanges in turn.

Five clients, TLS and authentication. In round k + 1 the node of client k kills itself when it is
asked for its part in exchange k. The operator sees that it is gone and removes it; another node,
with a node key of its own and the client's state directory, takes its place. A sixth client is
there all along, with a key that is not in the roster.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedau_flwr.secure import Exchange, Identity, Roster
from fedau_flwr.wire.fixed_point import FixedPoint
from simulations.launch.federation import Federation, Node
from simulations.launch.superlink import CONNECTION, flower_command
from tests.deployment.app.quadratics import problem
from tests.deployment.conftest import APP
from tests.deployment.database import DatabaseRecord
from tests.deployment.history import CUTOFF, History, weight

pytestmark = pytest.mark.deployment

CLIENTS = 5
EXCHANGES = list(Exchange)
# Nobody waits so long: the SuperLink knows at once that a node which was removed will not reply.
EXCHANGE_SECONDS = 300.0


@dataclass
class Scenario:
    status: str
    log: str
    rounds: list[dict[str, Any]]
    clients: dict[int, int]
    history: History
    in_database: list[NDArray[Any]]


def enroll(nodes: list[Node], roster: Path) -> None:
    """Give every node a key; all but the last are in the roster, which has one of its own."""
    lines = []
    for node in nodes:
        made = Identity.create(Path(str(node.config["fedau-state-dir"])), node.name)
        lines.append(made.line)
    roster.write_text("\n".join(lines[:-1]) + "\n")
    other = roster.with_name("other.toml")
    other.write_text("\n".join(lines) + "\n")
    nodes[-1].config["fedau-roster"] = str(other)
    assert len(Roster.load(roster)) == len(nodes) - 1


def replace_the_dead(federation: Federation, node: Node, spare: Node | None) -> None:
    """Wait until ``node`` is dead, start ``spare``, and only then let the round go on without it.

    So the next round has all clients again.
    """
    deadline = time.monotonic() + 300.0
    while node.alive:
        assert time.monotonic() < deadline, f"{node.name} did not die"
        time.sleep(0.1)
    if spare is not None:
        spare.start()
        spare.wait_connected()
    flower_command(
        *("supernode", "unregister", str(node.node_id), CONNECTION),
        environment=federation.superlink.environment,
    )


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Scenario:
    directory = tmp_path_factory.mktemp("secure")
    roster = directory / "roster.toml"
    federation = Federation(
        directory,
        nodes=CLIENTS + 1 + len(EXCHANGES) - 1,
        node_config={"fedau-roster": str(roster)},
        environment=environment,
    )
    nodes, stranger = federation.nodes[:CLIENTS], federation.nodes[CLIENTS]
    spares = federation.nodes[CLIENTS + 1 :]
    enroll([*nodes, stranger], roster)
    for client, exchange in enumerate(EXCHANGES):
        nodes[client].config |= {"dies-in": exchange.value, "dies-at": client + 1}
    for client, spare in enumerate(spares):
        for key in ("partition-id", "fedau-state-dir"):
            spare.config[key] = nodes[client].config[key]
    config = {
        "num-server-rounds": len(EXCHANGES),
        "num-clients": CLIENTS,
        "wait-for": CLIENTS + 1,
        "roster": str(roster),
        "cutoff": CUTOFF,
        "exchange-seconds": EXCHANGE_SECONDS,
        "deadline": EXCHANGE_SECONDS,
        "directory": str(directory),
    }
    with federation:
        federation.start_superlink()
        for node in (*nodes, stranger):
            node.start()
        for node in (*nodes, stranger):
            node.wait_connected(timeout=300.0)
        with DatabaseRecord(directory / "superlink.db") as database:
            run = federation.run(APP, config=config)
            for node, spare in zip(nodes, [*spares, None], strict=False):
                replace_the_dead(federation, node, spare)
            status = run.wait_finished(timeout=300.0)
        clients = {node.node_id: client for client, node in enumerate(nodes)}
        clients |= {node.node_id: client for client, node in enumerate(spares)}
        clients[stranger.node_id] = CLIENTS
        lines = (directory / "rounds.jsonl").read_text().splitlines()
        return Scenario(
            status=status,
            log=run.output(),
            rounds=[json.loads(line) for line in lines],
            clients=clients,
            history=History.read(directory, clients),
            in_database=database.arrays(),
        )


def model_before(scenario: Scenario, number: int) -> NDArray[np.float32]:
    if number == 1:
        return problem.initial_model()
    return np.array(scenario.rounds[number - 2]["model"], np.float32)


def contribution(scenario: Scenario, number: int, node: int) -> NDArray[np.float32]:
    """Return what a node had to add to the sum of a round, on the grid."""
    client = scenario.clients[node]
    model = model_before(scenario, number)
    update = problem.train(model, client, step_size=0.1, steps=3) - model
    weighted = np.float32(weight(scenario.history.participation(client, number))) * update
    rounding = np.random.default_rng((problem.ROUNDING_SEED, number, node))
    rounded, _ = FixedPoint().round(weighted, rounding)
    return rounded


def test_training_goes_through(scenario: Scenario) -> None:
    assert scenario.status == "finished:completed"
    assert len(scenario.rounds) == len(EXCHANGES)
    assert "is void" not in scenario.log


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_killed_node_is_in_the_sum_only_if_its_vector_was(
    scenario: Scenario, exchange: Exchange
) -> None:
    victim = EXCHANGES.index(exchange)
    counted = scenario.history.counted[victim]
    survivors = [client for client in range(CLIENTS) if client != victim]
    in_sum = exchange in (Exchange.CONSISTENCY, Exchange.UNMASK)
    assert counted == (list(range(CLIENTS)) if in_sum else survivors)


def test_client_that_is_not_in_the_roster_is_refused(scenario: Scenario) -> None:
    assert all(CLIENTS not in counted for counted in scenario.history.counted)
    assert "its roster is not the server's" in scenario.log


@pytest.mark.parametrize("number", range(1, len(EXCHANGES) + 1))
def test_sum_of_the_survivors_is_exact(scenario: Scenario, number: int) -> None:
    entry = scenario.rounds[number - 1]
    parts = [contribution(scenario, number, node) for node in entry["counted"]]
    total = np.sum(parts, axis=0, dtype=np.float64).astype(np.float32)
    expected = model_before(scenario, number) + total * np.float32(1 / CLIENTS)
    np.testing.assert_array_equal(np.array(entry["model"], np.float32), expected)


def test_database_never_held_an_unmasked_vector(scenario: Scenario) -> None:
    """The same watch finds the contributions of a plain sum: see test_lost_reply."""
    vectors = [array for array in scenario.in_database if array.dtype == np.uint32]
    assert len(vectors) >= len(EXCHANGES)
    for number in range(1, len(EXCHANGES) + 1):
        for node in scenario.clients:
            clear = contribution(scenario, number, node)
            ring = FixedPoint().to_ring(clear)
            for array in scenario.in_database:
                if array.shape != clear.shape:
                    continue
                assert not np.allclose(array, clear, rtol=1e-3)
                # Neither on the grid, the last steps of the rounding aside.
                distance = array.astype(np.int64) - ring.astype(np.int64)
                assert array.dtype != np.uint32 or np.abs(distance).max() > 1000
