"""The grid that wakes Flower's engine, on Flower's own state and with Flower's own extractor."""

import threading
import time
from queue import Queue

import pytest
from flwr.app import Message, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.task_pb2 import Task
from flwr.server.superlink.fleet.vce.vce_api import _register_nodes, add_messages_to_queue
from flwr.server.superlink.linkstate import InMemoryLinkState, LinkStateFactory
from flwr.server.superlink.linkstate.in_memory_linkstate import RunRecord
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.grid import InMemoryGrid

from fedau_flwr import _flower
from fedau_flwr.testing.in_process_grid import InProcessGrid
from simulations.runs import event_grid
from simulations.runs.event_grid import EventDrivenGrid, event_driven

NODES = 40


@pytest.fixture
def engine():
    """Return a grid, its nodes, the messages that reach the workers, and Flower's state."""
    factory = LinkStateFactory(
        FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), ObjectStoreFactory()
    )
    state = factory.state()
    run = Run.create_empty(run_id=1)
    run.federation_id, run.primary_task_id = NOOP_FEDERATION_ID, 1
    state.run_ids[1] = RunRecord(run=run)
    state.task_store[1] = Task(task_id=1, run_id=1)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, SUPERLINK_NODE_ID, 1
    nodes = _register_nodes(NODES, factory)
    inner = InMemoryGrid(factory)
    inner.set_run(run)
    queue, stop = Queue(), threading.Event()
    with event_driven(inner) as grid:
        assert type(grid) is EventDrivenGrid
        extractor = threading.Thread(target=add_messages_to_queue, args=(state, queue, nodes, stop))
        extractor.start()
        yield grid, list(nodes), queue, state
    stop.set()
    extractor.join(timeout=10)
    assert not extractor.is_alive()
    assert not {"get_message_ins", "store_message_res"} & vars(state).keys()


def to(nodes):
    return [Message(RecordDict(), node, "train") for node in nodes]


def answer(queue, state, count, *, delay=0.0):
    """Reply to so many messages, as the engine's workers do."""

    def work():
        for number in range(count):
            message = queue.get(timeout=10)
            time.sleep(delay)
            reply = Message(RecordDict(), reply_to=message)
            reply.metadata.__dict__["_message_id"] = f"reply-{number}-{time.monotonic_ns()}"
            state.store_message_res(reply)

    worker = threading.Thread(target=work)
    worker.start()
    return worker


def test_every_message_is_answered_round_after_round(engine):
    grid, nodes, queue, state = engine
    for asked in (nodes[:2], nodes, nodes[5:9], [nodes[-1]]):
        worker = answer(queue, state, len(asked))
        replies = grid.send_and_receive(to(asked), timeout=30)
        worker.join()
        assert {reply.metadata.src_node_id for reply in replies} == set(asked)
    assert state.num_message_ins() == state.num_message_res() == 0


def test_several_messages_to_one_node_all_arrive(engine):
    grid, nodes, queue, state = engine
    worker = answer(queue, state, 3)
    replies = grid.send_and_receive(to([nodes[3]] * 3), timeout=30)
    worker.join()
    assert len(replies) == 3


def test_who_does_not_answer_in_time_is_left_out(engine):
    grid, nodes, queue, state = engine
    worker = answer(queue, state, 1)
    replies = grid.send_and_receive(to(nodes[:2]), timeout=1.0)
    worker.join()
    assert len(replies) == 1


def test_a_message_wakes_the_engine_from_its_wait(engine, monkeypatch):
    grid, nodes, queue, _ = engine
    # Whoever had to look again by itself would take an hour now.
    monkeypatch.setattr(event_grid, "PATIENCE", 3600.0)
    for _ in range(3):
        grid.push_messages(to(nodes[:1]))
        assert queue.get(timeout=60).metadata.dst_node_id == nodes[0]


def test_what_a_worker_takes_at_once_does_not_go_through_the_engine(engine):
    grid, nodes, queue, state = engine
    taken = []

    class Workers:
        def send_now(self, message):
            if message.metadata.dst_node_id != nodes[0]:
                return False
            taken.append(message)
            return True

    grid.workers = Workers()
    ids = grid.push_messages(to(nodes[:2]))
    assert queue.get(timeout=10).metadata.dst_node_id == nodes[1]
    assert queue.empty()
    assert [message.metadata.message_id for message in taken] == ids[:1]
    assert taken[0].metadata.delivered_at
    assert state.message_ins_store[ids[0]] is taken[0]


def test_other_grids_stay_as_they_are():
    grid = InProcessGrid(None, 1)
    with event_driven(grid) as same:
        assert same is grid


def changed(self, node_id, maximum):
    """Do what a later Flower might."""


@pytest.mark.parametrize("name", ["get_message_ins", "store_message_res"])
def test_another_flower_keeps_its_own_grid_and_the_log_says_so(monkeypatch, caplog, name):
    caplog.set_level("INFO")
    factory = LinkStateFactory(
        FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), ObjectStoreFactory()
    )
    grid = InMemoryGrid(factory)
    monkeypatch.setattr(InMemoryLinkState, name, changed)
    with event_driven(grid) as same:
        assert same is grid
    said = f"InMemoryLinkState.{name} takes ('self', 'node_id', 'maximum') instead of ('self', "
    assert sum(said in record.getMessage() for record in caplog.records) == 1


def test_a_flower_without_these_classes_keeps_its_own_grid_too(monkeypatch, caplog):
    caplog.set_level("INFO")
    monkeypatch.setitem(_flower._HOMES, "InMemoryGrid", "flwr.gone")
    monkeypatch.delitem(vars(_flower), "InMemoryGrid", raising=False)
    grid = InProcessGrid(None, 1)
    with event_driven(grid) as same:
        assert same is grid
    assert "No module named 'flwr.gone'" in caplog.text
