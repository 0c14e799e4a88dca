"""A training over a proxy: lost replies, one client full of garbage, and what travels.

One reply is lost as a whole. Of another one the SuperLink gets the envelope and a part of what
belongs to it: Flower's own grid would wait for the rest for minutes.
"""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import PushObjectRequest
from flwr.supercore.inflatable.inflatable_object import get_object_type_from_object_content
from numpy.typing import NDArray

from simulations.launch.federation import Federation
from tests.deployment.app.quadratics import problem
from tests.deployment.conftest import APP
from tests.deployment.database import DatabaseRecord
from tests.deployment.history import CUTOFF, History, first_attempt, last_version, weight
from tests.deployment.proxy import Proxy, Request

pytestmark = pytest.mark.deployment

PUSH = "/v1/fleet/push-messages"
PUSH_OBJECT = "/v1/fleet/push-object"
ROUNDS = 5
LOST_IN, HALF_LOST_IN = 2, 4
HONEST, WATCHED, SPOILER = range(3)
# A round with a lost reply lasts this long, and on a busy machine longer.
DEADLINE = 12.0


@dataclass
class Scenario:
    federation: Federation
    history: History
    log: str
    status: str
    model: NDArray[np.float32]
    requests: list[Request]
    in_database: list[NDArray[Any]]


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Scenario:
    directory = tmp_path_factory.mktemp("lost-reply")
    federation = Federation(directory, nodes=3, tls=False, environment=environment)
    federation.nodes[SPOILER].config["spoil"] = True
    with federation:
        federation.start_superlink()
        with (
            Proxy(federation.superlink.address) as proxy,
            DatabaseRecord(directory / "superlink.db") as database,
        ):
            federation.nodes[WATCHED].superlink = proxy.address
            federation.start_nodes()
            clients = {node.node_id: client for client, node in enumerate(federation.nodes)}
            whole = proxy.cut(PUSH, skip=LOST_IN - 1)
            run = federation.run(
                APP,
                config={
                    "num-server-rounds": ROUNDS,
                    "num-clients": 3,
                    "wait-for": 3,
                    "cutoff": CUTOFF,
                    "hasty-deadline": DEADLINE,
                    "hasty-rounds": f"{LOST_IN} {HALF_LOST_IN}",
                    "directory": str(directory),
                },
            )
            assert whole.happened.wait(300.0)
            run.wait_for(f"Round {LOST_IN}:", timeout=300.0)
            whole.lifted.set()
            run.wait_for(f"Round {HALF_LOST_IN - 1}:", timeout=300.0)
            half = proxy.cut(PUSH_OBJECT, skip=2)
            assert half.happened.wait(300.0)
            run.wait_for(f"Round {HALF_LOST_IN}:", timeout=300.0)
            half.lifted.set()
            status = run.wait_finished(timeout=300.0)
        return Scenario(
            federation=federation,
            history=History.read(directory, clients),
            log=run.output(),
            status=status,
            model=np.load(directory / "model.npy"),
            requests=proxy.requests,
            in_database=database.arrays(),
        )


def test_lost_replies_are_not_counted(scenario: Scenario) -> None:
    assert scenario.status == "finished:completed"
    assert [WATCHED in counted for counted in scenario.history.counted] == [
        server_round not in (LOST_IN, HALF_LOST_IN) for server_round in range(1, ROUNDS + 1)
    ]


def test_half_a_reply_keeps_nobody_waiting(scenario: Scenario) -> None:
    assert HONEST in scenario.history.counted[HALF_LOST_IN - 1]
    entry = first_attempt(scenario.federation.directory, HALF_LOST_IN)
    assert entry["deadline"] <= entry["seconds"] < 1.25 * entry["deadline"]


def test_weight_is_that_of_the_counted_rounds(scenario: Scenario) -> None:
    version = last_version(scenario.federation.directory / f"node-{WATCHED}" / "state")
    assert version.round == ROUNDS
    assert version.state.weight == weight([True, False, True, False])


def test_model_is_that_of_the_numpy_loop(scenario: Scenario) -> None:
    np.testing.assert_allclose(scenario.model, scenario.history.model(3), rtol=1e-5)


def test_garbage_is_rejected_in_one_line_each(scenario: Scenario) -> None:
    assert all(SPOILER not in counted for counted in scenario.history.counted)
    node_id = scenario.federation.nodes[SPOILER].node_id
    rejected = [
        line.split(f"Rejected the reply of node {node_id}: ")[1]
        for line in scenario.log.splitlines()
        if "Rejected" in line
    ]
    assert rejected == [
        "array '0' with values that are not finite.",
        "array '0' of shape (8,) instead of (4,).",
        "array '0' of shape (5000000,) instead of (4,).",
        "unknown records ['gift'].",
        "array '0' with values that are not finite.",
    ]


def test_client_sends_its_contributions_and_nothing_else(scenario: Scenario) -> None:
    objects = [
        PushObjectRequest.FromString(request.body).object_content
        for request in scenario.requests
        if request.path == PUSH_OBJECT
    ]
    kinds = {get_object_type_from_object_content(content) for content in objects}
    assert kinds == {"Message", "RecordDict", "ArrayRecord", "Array", "ArrayChunk"}

    sent = [
        np.load(io.BytesIO(content.split(b"\0", 1)[1]), allow_pickle=False)
        for content in objects
        if get_object_type_from_object_content(content) == "ArrayChunk"
    ]
    due = contributions(scenario)
    for array in sent:
        assert any(np.allclose(array, contribution, rtol=1e-5) for contribution in due)
    for server_round, contribution in enumerate(due, start=1):
        times = sum(np.allclose(array, contribution, rtol=1e-5) for array in sent)
        assert times == 1 or server_round in (LOST_IN, HALF_LOST_IN)


def contributions(scenario: Scenario) -> list[NDArray[np.float32]]:
    """Return what the watched client had to send in each round."""
    due = []
    for server_round in range(1, ROUNDS + 1):
        model = History(scenario.history.counted[: server_round - 1]).model(3)
        update = problem.train(model, WATCHED, step_size=0.1, steps=3) - model
        past = scenario.history.participation(WATCHED, server_round)
        due.append(np.float32(weight(past)) * update)
    return due


def test_database_held_contributions(scenario: Scenario) -> None:
    """In clear, as a plain sum needs it; test_secure shows that a secure one does without."""
    due = contributions(scenario)
    seen = [
        any(
            array.shape == contribution.shape and np.allclose(array, contribution, rtol=1e-5)
            for array in scenario.in_database
        )
        for contribution in due
    ]
    assert any(seen)


@pytest.mark.parametrize("word", ["num-examples", "train-loss", "classes", "weight", "fedau"])
def test_nothing_that_the_app_reports_leaves_the_client(scenario: Scenario, word: str) -> None:
    for request in scenario.requests:
        assert word.encode() not in request.head + request.body


def test_messages_carry_no_content_of_their_own(scenario: Scenario) -> None:
    """Flower adds how long the ClientApp ran, which no mod can keep back."""
    messages = [
        PushMessagesRequest.FromString(request.body)
        for request in scenario.requests
        if request.path == PUSH
    ]
    assert len(messages) > ROUNDS  # the lost one was tried again
    for message in messages:
        (envelope,) = message.messages_list
        assert not envelope.content.ListFields()
        assert not envelope.HasField("error")


def test_record_holds_every_kind_of_call(scenario: Scenario) -> None:
    assert {request.path.removeprefix("/v1/fleet/") for request in scenario.requests} == {
        "register-node",
        "activate-node",
        "send-node-heartbeat",
        "pull-messages",
        "get-run",
        "get-fab",
        "pull-object",
        "confirm-message-received",
        "push-messages",
        "push-object",
    }
