import logging
import threading
import time

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.server.superlink.linkstate.utils import create_message_error_unavailable_res_message

from fedau_flwr import FedAU
from fedau_flwr.server.deadlines import DeadlineGrid, with_deadline
from tests.fedau_flwr.federation import Federation, record, towards, training_app, values


class Slow(Federation):
    """Replies of `late` nodes come at the second look; those of `stuck` nodes block the look."""

    def __init__(self, clients):
        super().__init__(training_app(towards(np.arange(float(clients)))), clients)
        self.late, self.stuck = set(), set()
        self.looks = {}
        self.release = threading.Event()
        self.senders = {}

    def push_messages(self, messages):
        messages = list(messages)
        ids = list(super().push_messages(messages))
        self.senders |= {
            i: self.number(m.metadata.dst_node_id) for i, m in zip(ids, messages, strict=True)
        }
        return ids

    def pull_messages(self, message_ids):
        (message_id,) = message_ids
        self.looks[message_id] = self.looks.get(message_id, 0) + 1
        sender = self.senders[message_id]
        if sender in self.stuck:
            self.release.wait(30)
        if sender in self.late and self.looks[message_id] == 1:
            return []
        return super().pull_messages([message_id])


@pytest.fixture
def grid():
    slow = Slow(4)
    yield slow
    slow.release.set()


def messages(grid):
    return FedAU(4).configure_train(1, record(x=np.zeros(1)), ConfigRecord(), grid)


def senders(grid, replies):
    return sorted(grid.number(reply.metadata.src_node_id) for reply in replies)


def test_returns_as_soon_as_all_are_there(grid):
    grid.late = {2}
    assert senders(grid, DeadlineGrid(grid).send_and_receive(messages(grid), timeout=60)) == [
        0,
        1,
        2,
        3,
    ]


def test_a_reply_that_blocks_costs_the_others_nothing(grid):
    grid.stuck, grid.late = {1}, {3}
    began = time.monotonic()
    replies = DeadlineGrid(grid).send_and_receive(messages(grid), timeout=1.0)
    assert senders(grid, replies) == [0, 2, 3]
    assert time.monotonic() - began < 15  # and not the 30 that the grid would take


def test_no_message_no_wait(grid):
    assert DeadlineGrid(grid).send_and_receive([], timeout=None) == []


def test_errors_of_the_grid_are_raised(grid):
    def broken(message_ids):
        raise ConnectionError("the SuperLink is gone")

    asked = messages(grid)
    grid.pull_messages = broken
    with pytest.raises(ConnectionError, match="the SuperLink is gone"):
        DeadlineGrid(grid).send_and_receive(asked, timeout=5)


@pytest.mark.parametrize("error", [ValueError("no JSON\nat all"), KeyError("data")])
def test_a_reply_that_cannot_be_read_is_left_out(grid, caplog, error):
    asked, pull = messages(grid), grid.pull_messages

    def unreadable(message_ids):
        if grid.senders[message_ids[0]] == 2:
            raise error
        return pull(message_ids)

    grid.pull_messages = unreadable
    assert senders(grid, DeadlineGrid(grid).send_and_receive(asked, timeout=60)) == [0, 1, 3]
    (said,) = warnings(caplog)
    node = asked[2].metadata.dst_node_id
    assert said.startswith(f"Rejected the reply of node {node}: it cannot be read (")
    assert "\n" not in said


def test_a_reply_in_the_name_of_another_node_is_left_out(grid, caplog):
    asked, pull = messages(grid), grid.pull_messages

    def forged(message_ids):
        replies = list(pull(message_ids))
        if grid.senders[message_ids[0]] == 3:
            for reply in replies:
                vars(reply.metadata)["_src_node_id"] = asked[1].metadata.dst_node_id
        return replies

    grid.pull_messages = forged
    assert senders(grid, DeadlineGrid(grid).send_and_receive(asked, timeout=60)) == [0, 1, 2]
    node = asked[3].metadata.dst_node_id
    assert warnings(caplog) == [f"Rejected the reply of node {node}: it is in the name of another."]


def test_flowers_own_error_for_a_dead_node_is_called_what_it_is(grid, caplog):
    asked, pull = messages(grid), grid.pull_messages

    def dead(message_ids):
        if grid.senders[message_ids[0]] != 3:
            return pull(message_ids)
        head = Message(RecordDict(), 1, "train").metadata
        vars(head)["_message_id"] = message_ids[0]
        return [create_message_error_unavailable_res_message(head, "node_unavail")]

    grid.pull_messages = dead
    assert senders(grid, DeadlineGrid(grid).send_and_receive(asked, timeout=60)) == [0, 1, 2]
    node = asked[3].metadata.dst_node_id
    (said,) = warnings(caplog)
    assert said.startswith(f"No reply of node {node}: the SuperLink says '")
    assert "in the name of another" not in said


def warnings(caplog):
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


def test_flowers_loop_keeps_its_deadline(grid):
    grid.stuck = {0}
    strategy = FedAU(num_clients=4)
    result = strategy.start(DeadlineGrid(grid), record(x=np.zeros(1)), num_rounds=1, timeout=1.0)
    assert values(result.arrays)["x"] == pytest.approx(0.1 * (1 + 2 + 3) / 4)
    assert sorted(strategy.ledger.counted.values()) == [0, 1, 1, 1]


def test_everything_else_is_the_grids(grid):
    wrapped = DeadlineGrid(grid)
    assert list(wrapped.get_node_ids()) == list(grid.get_node_ids())
    assert wrapped.run is grid.run


def test_a_grid_is_wrapped_unless_it_is_known_to_keep_deadlines(grid):
    from flwr.superlink.grid import HttpGrid

    late = HttpGrid(token="t")
    wrapped = with_deadline(late)
    assert isinstance(wrapped, DeadlineGrid)
    assert wrapped.target is late
    assert with_deadline(wrapped) is wrapped
    assert with_deadline(grid) is grid  # it says that it keeps them


def test_a_grid_of_ours_stays_and_what_it_hands_on_to_is_wrapped(grid):
    from flwr.superlink.grid import HttpGrid

    from fedau_flwr.server.forwarding import ForwardingGrid

    outer = ForwardingGrid(HttpGrid(token="t"))
    assert with_deadline(outer) is outer
    assert isinstance(outer.target, DeadlineGrid)
    kept = ForwardingGrid(grid)
    assert with_deadline(kept).target is grid


def test_flowers_simulation_grid_keeps_deadlines_by_itself():
    from fedau_flwr._flower import InMemoryGrid

    simulated = InMemoryGrid.__new__(InMemoryGrid)
    assert with_deadline(simulated) is simulated


def test_lost_replies_under_flowers_loop_keep_nobody_waiting():
    from fedau_flwr import AvailabilityGrid, Bernoulli

    app = training_app(towards(np.zeros(3)))
    available = AvailabilityGrid(Federation(app, 3), Bernoulli(np.ones(3), seed=1), loss=1.0)
    began = time.monotonic()
    strategy = FedAU(num_clients=3)
    strategy.start(
        available, record(x=np.ones(1)), num_rounds=2, evaluate_fn=available.following(), timeout=60
    )
    assert time.monotonic() - began < 30
    assert set(strategy.ledger.counted.values()) == {0}
