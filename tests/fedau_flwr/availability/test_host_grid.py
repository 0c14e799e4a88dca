"""HostGrid: who is dealt where, what hosts are told, and what their loss means."""

import numpy as np
import pytest
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from hypothesis import given
from hypothesis import strategies as st

from fedau_flwr import FedAU
from fedau_flwr.availability import Bernoulli, HostGrid, Trace, answer_identity
from fedau_flwr.availability.host_grid import deal
from fedau_flwr.testing.in_process_grid import InProcessGrid

CLIENTS, HOSTS = 9, 3


@given(st.sets(st.integers(0, 99)), st.integers(1, 7))
def test_deal_is_even_and_loses_nobody(participants, hosts):
    clients = sorted(participants)
    rosters = deal(clients, hosts)
    assert len(rosters) == hosts
    assert sorted(client for roster in rosters for client in roster) == clients
    sizes = [len(roster) for roster in rosters]
    assert max(sizes) - min(sizes) <= 1
    assert all(roster == sorted(roster) for roster in rosters)


def make_grid(process, heard, **options):
    app = ClientApp(mods=[answer_identity])

    @app.train()
    def train(message, context):
        config = message.content["config"]
        heard.append((config["server-round"], context.node_config["partition-id"],
                      list(config["fedau-clients"])))  # fmt: skip
        content = {
            "arrays": ArrayRecord({"x": Array(np.array([float(len(config["fedau-clients"]))]))}),
            "metrics": MetricRecord({"num-examples": 1}),
        }
        return Message(RecordDict(content), reply_to=message)

    return HostGrid(InProcessGrid(app, HOSTS), process, **options)


def one_round(strategy, grid, number):
    grid.set_round(number)
    arrays = ArrayRecord({"x": Array(np.array([0.0]))})
    messages = strategy.configure_train(number, arrays, ConfigRecord(), grid)
    return grid.send_and_receive(messages)


def built_in():
    return FedAvg(
        fraction_evaluate=0.0, min_train_nodes=0, min_evaluate_nodes=0, min_available_nodes=0
    )


def test_flowers_own_strategy_reaches_the_participants():
    process = Bernoulli(np.full(CLIENTS, 0.4), seed=3)
    heard = []
    grid = make_grid(process, heard)
    for number in range(1, 6):
        one_round(built_in(), grid, number)
    for number in range(1, 6):
        there = np.flatnonzero(process.active(number - 1)).tolist()
        rosters = {host: roster for n, host, roster in heard if n == number}
        assert rosters == {h: there[h::HOSTS] for h in range(HOSTS) if there[h::HOSTS]}


def test_fedau_names_the_participants_itself():
    process = Trace([[1] * CLIENTS])
    heard = []
    grid = make_grid(process, heard)
    grid.set_round(1)
    grid.get_node_ids()
    strategy = FedAU(CLIENTS, roster=grid.roster)
    one_round(strategy, grid, 1)
    assert sorted(heard) == [(1, 0, [0, 3, 6]), (1, 1, [1, 4, 7]), (1, 2, [2, 5, 8])]


def test_a_round_without_participants_shows_no_hosts():
    grid = make_grid(Trace([[0] * CLIENTS, [1] + [0] * (CLIENTS - 1)], repeat=True), [])
    grid.set_round(1)
    assert grid.get_node_ids() == []
    assert one_round(built_in(), grid, 1) == []
    grid.set_round(2)
    assert [grid.client_numbers[node] for node in grid.get_node_ids()] == [0]
    assert len(grid.everyone().get_node_ids()) == HOSTS


def test_lost_replies_are_lost_by_host():
    heard = []
    grid = make_grid(Trace([[1] * CLIENTS], repeat=True), heard, loss=0.5, seed=4)
    arrived = []
    for number in range(1, 11):
        replies = one_round(built_in(), grid, number)
        numbers = [grid.client_numbers[reply.metadata.src_node_id] for reply in replies]
        assert numbers == [h for h in range(HOSTS) if not grid.lost(number)[h]]
        arrived += numbers
    assert len(heard) == 30
    assert 0 < len(arrived) < 30


def test_a_missing_host_is_an_error():
    grid = make_grid(Trace([[1] * CLIENTS]), [])
    grid.set_round(1)
    nodes = grid.get_node_ids()
    grid._grid.disconnect(nodes[0])
    with pytest.raises(RuntimeError, match="2 hosts are connected, but their numbers go up to 2"):
        grid.get_node_ids()


def test_other_messages_are_left_as_they_are():
    grid = make_grid(Trace([[1] * CLIENTS]), [])
    grid.set_round(1)
    message = Message(RecordDict(), grid.get_node_ids()[0], MessageType.EVALUATE)
    assert grid._addressed(message) is message
