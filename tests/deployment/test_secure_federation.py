"""Five nodes with TLS and authentication, and three that must not get in."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from simulations.deployment import Federation, Node
from simulations.deployment.federation import CERTIFICATES, CONNECTION
from simulations.deployment.run import flower_command
from tests.deployment.app.quadratics import problem
from tests.deployment.conftest import APP

NODES = 5
ROUNDS = 2
STEP_SIZE = 0.1
LOCAL_STEPS = 3


@dataclass
class Outcome:
    status: str
    log: str
    model: NDArray[np.float32]
    nodes: list[dict[str, str]]
    strangers: dict[str, Node]
    nodes_stayed: bool


def stranger(federation: Federation, name: str, *, ca: Path | None, key: Path | None) -> Node:
    environment = {"PYTHONPATH": federation.environment["PYTHONPATH"]}
    return Node(
        name,
        federation.directory / name,
        superlink=federation.address,
        config={"partition-id": 0},
        ca=ca,
        key=key,
        environment=environment,
    )


@pytest.fixture(scope="module")
def outcome(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> Iterator[Outcome]:
    directory = tmp_path_factory.mktemp("secure")
    elsewhere = directory / "elsewhere"
    subprocess.run(
        [sys.executable, CERTIFICATES, "--directory", elsewhere, "--node", "unknown"], check=True
    )
    with Federation(directory, nodes=NODES, environment=environment) as federation:
        federation.start()
        strangers = {
            "unregistered": stranger(
                federation, "unregistered", ca=federation.ca, key=elsewhere / "unknown.key"
            ),
            "wrong-ca": stranger(
                federation,
                "wrong-ca",
                ca=elsewhere / "ca.crt",
                key=federation.secrets / "node-0.key",
            ),
            "plaintext": stranger(federation, "plaintext", ca=None, key=None),
        }
        result = directory / "model.npy"
        run = federation.run(
            APP,
            config={
                "num-server-rounds": ROUNDS,
                "step-size": STEP_SIZE,
                "local-steps": LOCAL_STEPS,
                "result": str(result),
            },
        )
        for node in strangers.values():
            node.start()
        try:
            status = run.wait_finished(timeout=120.0)
            listing = flower_command(
                "supernode", "list", CONNECTION, environment=federation.environment
            )
        finally:
            for node in strangers.values():
                node.stop()
        yield Outcome(
            status=status,
            log=run.output(),
            model=np.load(result),
            nodes=listing["nodes"],
            strangers=strangers,
            nodes_stayed=all(node.alive for node in federation.nodes),
        )


def numpy_loop() -> NDArray[np.float32]:
    model = problem.initial_model()
    for _ in range(ROUNDS):
        trained = [
            problem.train(model, client, step_size=STEP_SIZE, steps=LOCAL_STEPS)
            for client in range(NODES)
        ]
        model = np.mean(trained, axis=0)
    return model


def test_run_ends_with_the_model_of_the_numpy_loop(outcome: Outcome) -> None:
    assert outcome.status == "finished:completed"
    np.testing.assert_allclose(outcome.model, numpy_loop(), rtol=1e-6)


def test_run_does_not_notice_the_strangers(outcome: Outcome) -> None:
    assert outcome.log.count("Received 5 results and 0 failures") == ROUNDS
    assert outcome.nodes_stayed


def test_superlink_knows_the_five_nodes_only(outcome: Outcome) -> None:
    assert [node["status"] for node in outcome.nodes] == ["online"] * NODES


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unregistered", "Failed to activate SuperNode"),
        ("wrong-ca", "certificate verify failed"),
        ("plaintext", "Connection attempt failed"),
    ],
)
def test_stranger_is_refused(outcome: Outcome, name: str, reason: str) -> None:
    node = outcome.strangers[name]
    assert node.node_id is None
    assert reason in node.output()
