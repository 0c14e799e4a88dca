"""One training with TLS and authentication, and what can happen to it.

Four nodes train. Three strangers try to get in. A node is killed in the middle of a round. Two
rounds after a checkpoint, ServerApp and SuperLink are killed too; meanwhile the state of one node
is cut in half, and that of another replaced by one of a later version. The training is resumed,
the killed node comes back.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from simulations.launch.federation import CERTIFICATES, SECONDS_UNTIL_OFFLINE, Federation, Node
from simulations.launch.process import stop_together
from simulations.launch.superlink import CONNECTION, FlowerRun, flower_command
from tests.deployment.conftest import APP
from tests.deployment.history import CUTOFF, History, first_attempt, last_version, weight
from tests.processes import command_line

pytestmark = pytest.mark.deployment

NODES = 4
OTHER_VERSION, KILLED, CUT_IN_HALF = 1, 2, 3
KILLED_IN = 3
CHECKPOINT_EVERY = 3
SERVER_DIES_AFTER = 5
# At least; on a busy machine the app takes three times what the rounds before have taken.
DEADLINE = 12.0
# The SuperLink itself replies for a node whose last heartbeat, 30 s apart, is a minute ago.
SOONEST_OFFLINE = SECONDS_UNTIL_OFFLINE - 35.0


@dataclass
class Scenario:
    federation: Federation
    history: History
    first: FlowerRun
    second: FlowerRun
    status: str
    model: NDArray[np.float32]
    ids_before: list[int | None]
    ids_after: list[int | None]
    strangers: dict[str, Node]
    online: int
    spoiled: dict[int, bytes]


def stranger(federation: Federation, name: str, *, ca: Path | None, key: Path | None) -> Node:
    return Node(
        name,
        federation.directory / name,
        superlink=federation.superlink.address,
        config={"partition-id": 0},
        ca=ca,
        key=key,
    )


def record(directory: Path) -> list[dict[str, Any]]:
    """Return what the ServerApps have noted, an entry per round, the incomplete last line aside."""
    path = directory / "rounds.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]


def wait_for_rounds(directory: Path, count: int, *, timeout: float = 300.0) -> None:
    deadline = time.monotonic() + timeout
    while len(record(directory)) < count:
        assert time.monotonic() < deadline, f"no {count} rounds within {timeout:g} s"
        time.sleep(0.1)


def wait_until_counted(directory: Path, node: Node, *, timeout: float = 300.0) -> None:
    """Wait until a node has been counted in two rounds since it was killed."""
    deadline = time.monotonic() + timeout
    while sum(node.node_id in entry["counted"] for entry in record(directory)) < KILLED_IN + 1:
        assert time.monotonic() < deadline, f"{node.name} is not counted"
        time.sleep(0.2)


def kill_in_training(node: Node) -> None:
    """Kill a SuperNode while its ClientApp trains for round ``KILLED_IN``."""
    deadline = time.monotonic() + 300.0
    while node.output().count("Start `flwr-clientapp` process") < KILLED_IN:
        assert time.monotonic() < deadline, f"{node.name} was not asked {KILLED_IN} times"
        time.sleep(0.05)
    node.kill()


def spoil_state(node: Node, spoil: Callable[[bytes], bytes]) -> bytes:
    """Change the state that a node has stored, once its ClientApp is done, and return it."""
    deadline = time.monotonic() + 300.0
    while any("flwr-clientapp --" in command_line(process) for process in node.descendants()):
        assert time.monotonic() < deadline, f"{node.name} still trains"
        time.sleep(0.1)
    (state_file,) = (node.directory / "state").glob("*/*/state.json")
    spoiled = spoil(state_file.read_bytes())
    state_file.write_bytes(spoiled)
    return spoiled


def in_half(state: bytes) -> bytes:
    return state[: len(state) // 2]


def of_a_later_version(state: bytes) -> bytes:
    return json.dumps({**json.loads(state), "version": 99}).encode()


def kill_server(federation: Federation) -> None:
    (serverapp,) = [
        process
        for process in federation.superlink.descendants()
        if "flwr-serverapp" in command_line(process)
    ]
    serverapp.kill()
    federation.superlink.kill()


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Scenario:
    directory = tmp_path_factory.mktemp("faults")
    elsewhere = directory / "elsewhere"
    subprocess.run(
        [sys.executable, CERTIFICATES, "--directory", elsewhere, "--node", "unknown"], check=True
    )
    config = {
        "num-clients": NODES,
        "wait-for": NODES,
        "cutoff": CUTOFF,
        "training-seconds": 1.0,
        "hasty-deadline": DEADLINE,
        "hasty-rounds": " ".join(map(str, range(KILLED_IN, SERVER_DIES_AFTER + 2))),
        "checkpoint-every": CHECKPOINT_EVERY,
        "directory": str(directory),
    }
    with Federation(directory, nodes=NODES, environment=environment) as federation:
        federation.start()
        ids_before = [node.node_id for node in federation.nodes]
        clients = {node.node_id: client for client, node in enumerate(federation.nodes)}
        key = federation.secrets / "node-0.key"
        strangers = {
            node.name: node
            for node in (
                stranger(
                    federation,
                    "unregistered",
                    ca=federation.superlink.ca,
                    key=elsewhere / "unknown.key",
                ),
                stranger(federation, "wrong-ca", ca=elsewhere / "ca.crt", key=key),
                stranger(federation, "plaintext", ca=None, key=None),
            )
        }
        first = federation.run(APP, config=config)
        try:
            for node in strangers.values():
                node.start()
            wait_for_rounds(directory, KILLED_IN - 2)
            listing = flower_command(
                "supernode", "list", CONNECTION, environment=federation.superlink.environment
            )
        finally:
            stop_together(list(strangers.values()))
        killed = federation.nodes[KILLED]
        kill_in_training(killed)
        killed_at = time.monotonic()

        wait_for_rounds(directory, SERVER_DIES_AFTER)
        kill_server(federation)
        first.stop()
        spoiled = {
            client: spoil_state(federation.nodes[client], spoil)
            for client, spoil in ((CUT_IN_HALF, in_half), (OTHER_VERSION, of_a_later_version))
        }

        federation.start_superlink()
        # It has to wait for a minute; slow rounds in the meantime cost less.
        second = federation.run(APP, config={**config, "resume": True, "training-seconds": 4.0})
        time.sleep(max(0.0, killed_at + SECONDS_UNTIL_OFFLINE - 5.0 - time.monotonic()))
        killed.start()
        killed.wait_connected()
        wait_until_counted(directory, killed)
        (directory / "stop").touch()
        status = second.wait_finished(timeout=60.0)
        return Scenario(
            federation=federation,
            history=History.read(directory, clients),
            first=first,
            second=second,
            status=status,
            model=np.load(directory / "model.npy"),
            ids_before=ids_before,
            ids_after=[node.node_id for node in federation.nodes],
            strangers=strangers,
            online=sum(node["status"] == "online" for node in listing["nodes"]),
            spoiled=spoiled,
        )


def remembered(scenario: Scenario, client: int, before: int) -> list[bool]:
    """Return what a client takes its participation to have been, before a round."""
    past = scenario.history.participation(client, before)
    if client in scenario.spoiled:
        # All that it knows of the time before is the last round in which it was counted.
        last = max(number for number in range(1, CHECKPOINT_EVERY + 1) if past[number - 1])
        past[: last - 1] = [False] * (last - 1)
    return past


def test_everybody_is_counted_until_something_happens(scenario: Scenario) -> None:
    assert scenario.history.counted[: KILLED_IN - 1] == [list(range(NODES))] * (KILLED_IN - 1)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unregistered", "Failed to activate SuperNode"),
        ("wrong-ca", "certificate verify failed"),
        ("plaintext", "Connection attempt failed"),
    ],
)
def test_stranger_is_refused(scenario: Scenario, name: str, reason: str) -> None:
    assert scenario.strangers[name].node_id is None
    assert reason in scenario.strangers[name].output()
    assert scenario.online == NODES


def test_round_of_a_killed_node_ends_at_the_deadline_without_it(scenario: Scenario) -> None:
    assert KILLED not in scenario.history.counted[KILLED_IN - 1]
    (line,) = [text for text in scenario.first.output().splitlines() if "Round 3:" in text]
    assert int(line.split(" without reply")[0].rsplit(None, 1)[1]) >= 1
    entry = first_attempt(scenario.federation.directory, KILLED_IN)
    soonest = min(entry["deadline"], SOONEST_OFFLINE)
    assert soonest <= entry["seconds"] < 1.25 * entry["deadline"]
    assert f"{entry['seconds']:.1f} s" in line


def test_killed_node_comes_back_under_its_name(scenario: Scenario) -> None:
    assert scenario.ids_after == scenario.ids_before
    assert any(KILLED in counted for counted in scenario.history.counted[KILLED_IN:])


def test_every_weight_is_that_of_the_counted_rounds(scenario: Scenario) -> None:
    for client in range(NODES):
        version = last_version(scenario.federation.directory / f"node-{client}" / "state")
        assert version.state.weight == weight(remembered(scenario, client, version.round))


def test_model_is_that_of_the_numpy_loop(scenario: Scenario) -> None:
    """Over the rounds that are in it: nothing is trained into the model twice."""
    assert scenario.status == "finished:completed"
    forgot = {
        client: remembered(scenario, client, CHECKPOINT_EVERY + 1) for client in scenario.spoiled
    }
    np.testing.assert_allclose(
        scenario.model, scenario.history.model(NODES, forgot=forgot), rtol=1e-5
    )


def test_resume_repeats_what_came_after_the_checkpoint(scenario: Scenario) -> None:
    rounds = {1: [], 2: []}
    for entry in record(scenario.federation.directory):
        rounds[entry["attempt"]].append(entry["round"])
    assert rounds[1][-1] == SERVER_DIES_AFTER
    assert rounds[2][0] == CHECKPOINT_EVERY + 1


@pytest.mark.parametrize(
    ("client", "reason"), [(CUT_IN_HALF, "must be JSON"), (OTHER_VERSION, "version is 99, but")]
)
def test_unreadable_state_is_set_aside(scenario: Scenario, client: int, reason: str) -> None:
    node = scenario.federation.nodes[client]
    (aside,) = (node.directory / "state").glob("*/*/unreadable-1/state.json")
    assert aside.read_bytes() == scenario.spoiled[client]
    warnings = [line for line in node.output().splitlines() if "the client starts afresh" in line]
    assert len(warnings) == 1
    assert reason in warnings[0]
