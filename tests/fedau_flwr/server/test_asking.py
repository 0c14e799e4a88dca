"""Who is asked, and that the first round waits for somebody to be there."""

import logging
import random

import numpy as np
import pytest
from flwr.app import ConfigRecord

from fedau_flwr import AvailabilityGrid, FedAU, Trace
from fedau_flwr.testing.in_process_grid import InProcessGrid
from tests.fedau_flwr.federation import Federation, record, towards, training_app, values

WAITING = "Waiting for nodes to connect: 0 connected (minimum required: 1)."


@pytest.fixture
def late(monkeypatch):
    """A grid whose nodes connect after the strategy has started."""
    grid = InProcessGrid(training_app(towards([1.0, 2.0])), 0)
    monkeypatch.setattr("time.sleep", lambda _: grid.connect({"partition-id": len(grid.contexts)}))
    return grid


def test_the_first_round_waits_for_a_node(late, caplog):
    caplog.set_level(logging.INFO, "flwr")
    result = FedAU(1).start(late, record(x=np.zeros(1)), num_rounds=2)
    assert caplog.messages.count(WAITING) == 1
    assert values(result.arrays)["x"] == pytest.approx(0.19)


def test_later_rounds_never_wait(caplog):
    caplog.set_level(logging.INFO, "flwr")
    grid = Federation(training_app(towards([1.0] * 2)), 2)
    strategy, model = FedAU(2, min_available_nodes=2), record(x=np.zeros(1))
    grid.play(strategy, 1, model)
    for node in list(grid.contexts):
        grid.disconnect(node)
    assert strategy.configure_train(2, model, ConfigRecord(), grid) == []
    assert "Waiting" not in caplog.text


def test_an_empty_first_round_of_a_simulated_path_does_not_wait():
    inner = InProcessGrid(training_app(towards([1.0])), 1)
    grid = AvailabilityGrid(inner, Trace([[0], [1]]))
    result = FedAU(1).start(grid, record(x=np.zeros(1)), num_rounds=2)
    assert values(result.arrays)["x"] == pytest.approx(0.1)


def test_nobody_to_train_means_nobody_to_wait_for():
    grid = InProcessGrid(training_app(towards([1.0])), 0)
    strategy = FedAU(1, fraction_train=0.0)
    assert strategy.configure_train(1, record(x=np.zeros(1)), ConfigRecord(), grid) == []


@pytest.mark.parametrize(("nodes", "fraction", "asked"), [(1, 0.5, 1), (9, 0.1, 1), (30, 0.1, 3)])
def test_a_positive_fraction_asks_at_least_one(nodes, fraction, asked):
    random.seed(1)
    grid = Federation(training_app(towards([0.0] * nodes)), nodes)
    strategy = FedAU(nodes, fraction_train=fraction, fraction_evaluate=fraction)
    for messages in (
        strategy.configure_train(1, record(x=np.zeros(1)), ConfigRecord(), grid),
        strategy.configure_evaluate(1, record(x=np.zeros(1)), ConfigRecord(), grid),
    ):
        assert len(messages) == asked


def test_more_nodes_than_clients_are_told_once(caplog):
    grid = Federation(training_app(towards([1.0] * 4)), 4)
    strategy, model = FedAU(2), record(x=np.zeros(1))
    for r in (1, 2, 3):
        model = grid.play(strategy, r, model)
    (line,) = [m for m in caplog.messages if m.startswith("num_clients")]
    assert line == (
        "num_clients is 2, but 4 nodes are connected: it must be the number of all clients, "
        "connected or not; every step is 2 times too long with this one."
    )


@pytest.mark.parametrize(("num_clients", "told"), [(8, True), (7, False)])
def test_far_fewer_clients_than_n_are_a_hint_after_some_rounds(num_clients, told, caplog):
    caplog.set_level(logging.INFO, "flwr")
    grid = Federation(training_app(towards([1.0] * 2)), 2)
    strategy, model = FedAU(num_clients), record(x=np.zeros(1))
    for r in range(1, 31):
        model = grid.play(strategy, r, model)
    hints = [m for m in caplog.messages if m.startswith("num_clients")]
    assert len(hints) == told
    assert all("only 2 clients were seen in 20 rounds" in hint for hint in hints)
