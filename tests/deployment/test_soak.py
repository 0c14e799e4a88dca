"""Ten nodes that come and go at random, for a minute or for ``FEDAU_SOAK_SECONDS``."""

import json
import math
import os
import random
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest
from numpy.typing import NDArray

from simulations.launch.federation import Federation, Node
from simulations.launch.process import Process
from tests.deployment.conftest import APP
from tests.deployment.history import CUTOFF, History, last_version, weight
from tests.processes import command_line, still_running

NODES = 10
pytestmark = [pytest.mark.deployment, pytest.mark.long]

SOAK = float(os.environ.get("FEDAU_SOAK_SECONDS", "60"))
# Rounds of nodes that were killed last this long, and on a busy machine three times what the first
# rounds have taken, in which nobody goes.
DEADLINE = 12.0
CALM_ROUNDS = 2
# A machine that is slow for other reasons gets so many seconds more to see enough happen.
GRACE = 240.0
# What a node that was killed has started looks for it several times a second, and the ClientApp of
# its SuperExec in turn; both then clean up.
ORPHAN_SECONDS = 20.0
ENOUGH_ROUNDS, ENOUGH_CLIENTS = 5, NODES // 2


@dataclass
class Usage:
    """What a process holds."""

    memory: int
    files: int

    @classmethod
    def of(cls, pid: int) -> "Usage":
        status = Path(f"/proc/{pid}/status").read_text()
        (line,) = [text for text in status.splitlines() if text.startswith("VmRSS")]
        return cls(int(line.split()[1]) * 1024, len(list(Path(f"/proc/{pid}/fd").iterdir())))


@dataclass
class Scenario:
    federation: Federation
    history: History
    status: str
    model: NDArray[np.float32]
    before: dict[str, Usage]
    after: dict[str, Usage]
    orphans: list[str]
    left_behind: list[str]


def serverapp(federation: Federation) -> int:
    (pid,) = [
        process.pid
        for process in federation.superlink.descendants()
        if "flwr-serverapp" in command_line(process)
    ]
    return pid


def usage(federation: Federation) -> dict[str, Usage]:
    """Return what the lasting processes hold: ServerApp, SuperLink, and the node that stays."""
    pids = {
        "ServerApp": serverapp(federation),
        "SuperLink": federation.superlink.pid,
        "SuperNode": federation.nodes[0].pid,
    }
    return {name: Usage.of(pid) for name, pid in pids.items()}


def come_and_go(nodes: list[Node], chance: random.Random) -> None:
    """Start or stop one node at random; some stop without a word."""
    node = chance.choice(nodes)
    if not node.alive:
        node.start()
    elif chance.random() < 0.25:
        node.observe()
        node.kill()
    else:
        node.stop()


def orphans_of(process: Process) -> list[psutil.Process]:
    """Return what runs of the starts of a process that are dead."""
    since = psutil.Process(process.pid).create_time() if process.alive else math.inf
    found = []
    for descendant in process.descendants():
        with suppress(psutil.NoSuchProcess):
            if descendant.create_time() < since:
                found.append(descendant)
    return still_running(found)


def orphans(federation: Federation) -> list[str]:
    """Return what still runs of processes that are dead, once it had the time to notice."""
    deadline = time.monotonic() + ORPHAN_SECONDS
    started = [node for node in federation.nodes if node.pids]
    while True:
        found = [orphan for node in started for orphan in orphans_of(node)]
        if not found or time.monotonic() > deadline:
            return [command_line(orphan) for orphan in found]
        time.sleep(0.5)


def enough_happened(directory: Path) -> bool:
    """Return whether there were rounds and clients enough to say something about."""
    path = directory / "rounds.jsonl"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    counted = [json.loads(line)["counted"] for line in lines]
    clients = {node for nodes in counted for node in nodes}
    return len(counted) >= ENOUGH_ROUNDS and len(clients) >= ENOUGH_CLIENTS


def identities(nodes: list[Node]) -> dict[int, int]:
    """Return the client of every node id that was ever used, over all starts."""
    return {
        int(node_id): client
        for client, node in enumerate(nodes)
        if node.log.exists()
        for node_id in re.findall(r"SuperNode ID: (\d+)", node.log.read_text())
    }


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Scenario:
    directory = tmp_path_factory.mktemp("soak")
    chance = random.Random(4711)
    with Federation(directory, nodes=NODES, environment=environment) as federation:
        federation.start_superlink()
        for node in federation.nodes[: NODES // 2]:
            node.start()
        run = federation.run(
            APP,
            config={
                "num-clients": NODES,
                "wait-for": NODES // 2,
                "cutoff": CUTOFF,
                "hasty-deadline": DEADLINE,
                "hasty-rounds": " ".join(map(str, range(CALM_ROUNDS + 1, 1000))),
                "training-seconds": 1.0,
                "directory": str(directory),
            },
        )
        run.wait_for(f"Round {CALM_ROUNDS}:", timeout=300.0)
        before = usage(federation)
        end = time.monotonic() + SOAK
        while time.monotonic() < end or (
            time.monotonic() < end + GRACE and not enough_happened(directory)
        ):
            come_and_go(federation.nodes[1:], chance)
            time.sleep(chance.uniform(1.0, 5.0))
        after = usage(federation)
        (directory / "stop").touch()
        status = run.wait_finished(timeout=300.0)
        forgotten = orphans(federation)
        everything = [federation.superlink, *federation.nodes]
        started = [found for process in everything for found in process.descendants()]
        federation.stop()
        left_behind = set(still_running(started))
        left_behind |= {found for process in everything for found in process.descendants()}
        return Scenario(
            federation=federation,
            history=History.read(directory, identities(federation.nodes)),
            status=status,
            model=np.load(directory / "model.npy"),
            before=before,
            after=after,
            orphans=forgotten,
            left_behind=[command_line(process) for process in left_behind],
        )


def test_run_goes_through(scenario: Scenario) -> None:
    assert scenario.status == "finished:completed"
    numbers = [len(counted) for counted in scenario.history.counted]
    assert len(set(numbers)) > 1, "nobody came or went"


def test_own_state_equals_what_the_server_counted(scenario: Scenario) -> None:
    """Node by node; whether the very last round was counted, no client has been told."""
    checked = 0
    for client, node in enumerate(scenario.federation.nodes):
        if not any(client in counted for counted in scenario.history.counted):
            continue
        version = last_version(node.directory / "state")
        past = scenario.history.participation(client, version.round)
        assert len(past) == version.round - 1
        assert version.state.weight == weight(past)
        checked += 1
    assert checked >= ENOUGH_CLIENTS


def test_model_is_that_of_the_numpy_loop(scenario: Scenario) -> None:
    np.testing.assert_allclose(scenario.model, scenario.history.model(NODES), rtol=1e-4)


def test_a_node_keeps_its_name(scenario: Scenario) -> None:
    clients = list(identities(scenario.federation.nodes).values())
    assert len(clients) == len(set(clients))


@pytest.mark.parametrize("name", ["ServerApp", "SuperLink", "SuperNode"])
def test_holds_no_more_than_at_the_beginning(scenario: Scenario, name: str) -> None:
    before, after = scenario.before[name], scenario.after[name]
    assert after.memory - before.memory < 32 * 2**20
    # A connection per node that came since, and those for pulls at the same time.
    assert after.files - before.files <= 2 * NODES


def test_what_a_killed_node_started_ends_by_itself(scenario: Scenario) -> None:
    starts = [len(node.pids) for node in scenario.federation.nodes]
    assert max(starts) > 1, "no node was started again"
    assert scenario.orphans == []


def test_no_process_is_left_behind(scenario: Scenario) -> None:
    assert scenario.left_behind == []
