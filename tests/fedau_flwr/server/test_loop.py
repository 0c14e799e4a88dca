"""The round loop on Flower's own FedAvg and on FedAU, with real ClientApps in one process."""

import logging
import random

import numpy as np
import pytest
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from fedau_flwr import (
    AvailabilityGrid,
    FedAU,
    FedAUMod,
    GaussianPrivacy,
    PrivacyBudget,
    RoundLoop,
    Trace,
)
from fedau_flwr.server.callbacks import Callback, Checkpoints, Evaluate, EvaluateOnNodes, Progress
from tests.fedau_flwr.federation import Federation, record, towards, training_app, values

CLIENTS = 3
TARGETS = np.float32([[1, 2], [-3, 0], [9, 9]])
START = np.float32([4, -4])


def fedavg(**options):
    return FedAvg(**{"min_train_nodes": 0, "min_available_nodes": 0} | options)


def federation(mods=None):
    return Federation(training_app(towards(TARGETS), mods), CLIENTS)


def evaluate(server_round, arrays):
    x = values(arrays)["x"]
    return MetricRecord({"loss": float(((x - TARGETS) ** 2).mean()), "at": server_round})


@pytest.mark.parametrize(
    ("strategy", "mods"), [(fedavg(fraction_evaluate=0.0), []), (FedAU(num_clients=CLIENTS), None)]
)
def test_six_lines_are_enough_for_evaluation_checkpoints_and_resume(tmp_path, strategy, mods):
    grid, initial_arrays = federation(mods), record(x=START)
    loop = RoundLoop(
        strategy,
        grid,
        [Evaluate(evaluate, every=10), Checkpoints(tmp_path, every=10), Progress()],
    )
    result = loop.run(initial_arrays, num_rounds=25)
    assert sorted(result.evaluate_metrics_serverapp) == [10, 20, 25]
    # Everybody came in every round: x − mean shrinks by 0.9 per round.
    mean = TARGETS.mean(axis=0)
    expected = mean + 0.9**25 * (START - mean)
    np.testing.assert_allclose(values(result.arrays)["x"], expected, rtol=1e-5)
    assert loop.sentence == "The run finished its 25 rounds."


def test_it_ends_where_flower_s_own_start_does():
    # Flower adds up in the order in which it has drawn the nodes.
    random.seed(1)
    ours = RoundLoop(fedavg(fraction_evaluate=0.0), federation([])).run(record(x=START), 4)
    random.seed(1)
    flower = fedavg(fraction_evaluate=0.0).start(federation([]), record(x=START), num_rounds=4)
    np.testing.assert_array_equal(values(ours.arrays)["x"], values(flower.arrays)["x"])
    assert ours.train_metrics_clientapp == flower.train_metrics_clientapp
    assert list(ours.train_metrics_clientapp) == [1, 2, 3, 4]


class Recorder(Callback):
    """Writes down what it is told."""

    def __init__(self):
        self.calls = []

    def prepare(self, loop):
        self.calls.append(("prepare", loop.round))

    def on_start(self, loop):
        self.calls.append(("start", loop.round))

    def before_round(self, loop):
        self.calls.append(("before", loop.round))

    def after_round(self, loop, report):
        self.calls.append(("after", loop.round))

    def round_done(self, loop, report):
        self.calls.append(("done", loop.round))

    def on_end(self, loop):
        self.calls.append((loop.status, loop.round))


def test_callbacks_hear_of_everything_in_order():
    recorder = Recorder()
    RoundLoop(fedavg(), federation([]), [recorder]).run(record(x=START), 2)
    rounds = [("before", 0), ("after", 1), ("done", 1), ("before", 1), ("after", 2), ("done", 2)]
    assert recorder.calls == [("prepare", 0), ("start", 0), *rounds, ("finished", 2)]


class EarlyStop(Callback):
    """A user's own callback: two methods."""

    def __init__(self):
        self.best = np.inf

    def before_round(self, loop):
        if loop.round == 7:
            loop.stop("Enough.")

    def after_round(self, loop, report):
        if loop.metrics["loss"] >= self.best:
            loop.stop(f"The loss grew in round {loop.round}.")
        self.best = loop.metrics["loss"]


@pytest.mark.parametrize(("losses", "reached"), [([3, 2, 1, 1, 0], 4), (range(99, 0, -1), 7)])
def test_a_callback_ends_the_run_before_or_after_a_round(losses, reached):
    losses = iter(losses)
    measure = Evaluate(lambda *_: MetricRecord({"loss": next(losses)}))
    loop = RoundLoop(fedavg(), federation([]), [measure, EarlyStop()])
    loop.run(record(x=START), 50)
    assert (loop.status, loop.round) == ("stopped", reached)
    assert loop.sentence == ("Enough." if reached == 7 else "The loss grew in round 4.")


def test_a_stop_in_the_last_round_changes_nothing():
    class Late(Callback):
        def after_round(self, loop, report):
            if loop.round == 2:
                loop.stop("Too late.")

    loop = RoundLoop(fedavg(), federation([]), [Late()])
    loop.run(record(x=START), 2)
    assert loop.status == "finished"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ValueError("clients is 0, but must be more."), "clients is 0, but must be more."),
        (KeyError("x"), "KeyError: 'x'"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_whatever_is_raised_ends_the_run_as_failed_and_every_callback_hears_of_it(error, sentence):
    class Break(Callback):
        def after_round(self, loop, report):
            raise error

    first, last = Recorder(), Recorder()
    loop = RoundLoop(fedavg(), federation([]), [first, Break(), last])
    with pytest.raises(type(error)):
        loop.run(record(x=START), 3)
    assert (loop.status, loop.sentence) == ("failed", sentence)
    assert first.calls[-1] == last.calls[-1] == ("failed", 1)


def test_a_failure_at_the_end_is_a_failure():
    class Break(Callback):
        def on_end(self, loop):
            raise OSError("The disk is full.")

    before, after = Recorder(), Recorder()
    loop = RoundLoop(fedavg(), federation([]), [before, Break(), after])
    with pytest.raises(OSError, match="full"):
        loop.run(record(x=START), 1)
    assert (before.calls[-1], after.calls[-1]) == (("finished", 1), ("failed", 1))


def test_a_node_that_fails_is_an_absence_unless_somebody_is_stricter():
    def train(client, arrays, server_round):
        if client == 2:
            raise RuntimeError("no data")
        return towards(TARGETS)(client, arrays, server_round)

    reports = []

    class Look(Callback):
        def after_round(self, loop, report):
            reports.append(report)

    for strategy, mods in ((fedavg(), []), (FedAU(num_clients=CLIENTS), None)):
        grid = Federation(training_app(train, mods), CLIENTS)
        RoundLoop(strategy, grid, [Look()]).run(record(x=START), 1)
        report = reports.pop()
        assert (report.asked, report.counted, report.rejected, report.absent) == (3, 2, 1, 0)
        assert {grid.number(node) for node in report.clients} == {0, 1}
        assert report.seconds > 0

    def strict(replies):
        assert len(replies) == 3
        raise RuntimeError("Node 2 failed.")

    grid = Federation(training_app(train, []), CLIENTS)
    loop = RoundLoop(fedavg(), grid, check_replies=strict)
    with pytest.raises(RuntimeError, match="Node 2 failed"):
        loop.run(record(x=START), 1)
    assert (loop.status, loop.round) == ("failed", 0)


def test_a_silent_node_is_missing_and_no_message_outlives_the_round():
    grid = federation([])
    grid.silent = {next(iter(grid.contexts))}
    seen = []

    class Look(Callback):
        def after_round(self, loop, report):
            seen.append((report.asked, report.counted, report.rejected, report.absent))

    RoundLoop(fedavg(), grid, [Look()], timeout=7.5).run(record(x=START), 1)
    assert seen == [(3, 2, 0, 1)]
    assert {message.metadata.ttl for message in grid.received} == {7.5}


def test_the_deadline_is_the_strategy_s_unless_given():
    assert RoundLoop(FedAU(num_clients=3, round_timeout=9.0), federation()).timeout == 9.0
    assert RoundLoop(FedAU(num_clients=3), federation()).timeout == 3600.0
    assert RoundLoop(FedAU(num_clients=3, round_timeout=9.0), federation(), timeout=5).timeout == 5


def test_a_privacy_budget_that_is_spent_ends_the_run():
    budget = PrivacyBudget(1.5, 1e-5)
    allowed = budget.rounds(8.0)
    strategy = FedAU(CLIENTS, privacy=GaussianPrivacy(1.0, 8.0, budget=budget))
    loop = RoundLoop(strategy, federation())
    loop.run(record(x=START), allowed + 5)
    assert (loop.status, loop.round) == ("stopped", allowed)
    assert loop.sentence.endswith(f"of {allowed + 5}, because the privacy budget is spent.")


def test_train_messages_say_what_the_round_s_config_says():
    grid = federation([])
    decaying = RoundLoop(
        fedavg(), grid, train_config=lambda number: ConfigRecord({"lr": 1.0 / number})
    )
    decaying.run(record(x=START), 2)
    sent = [dict(message.content["config"]) for message in grid.received]
    assert sent[0] == {"lr": 1.0, "server-round": 1}
    assert sent[-1] == {"lr": 0.5, "server-round": 2}
    fixed = ConfigRecord({"lr": 0.1})
    RoundLoop(fedavg(), grid, train_config=fixed).run(record(x=START), 1)
    assert dict(grid.received[-1].content["config"]) == {"lr": 0.1, "server-round": 1}
    assert dict(fixed) == {"lr": 0.1}


def test_an_availability_grid_is_told_the_rounds():
    app = training_app(towards(TARGETS), [FedAUMod()])
    grid = AvailabilityGrid(Federation(app, CLIENTS), Trace([[1, 0, 1], [0, 0, 0], [0, 1, 0]]))
    counted = []

    class Look(Callback):
        def after_round(self, loop, report):
            counted.append(report.clients)

    grid.wait_for_clients()
    strategy = FedAU(num_clients=CLIENTS, roster=grid.roster)
    RoundLoop(strategy, grid, [Look()]).run(record(x=START), 3)
    assert counted == [(0, 2), (), (1,)]


def test_evaluation_on_the_nodes_goes_through_the_strategy():
    app = training_app(towards(TARGETS), [])

    @app.evaluate()
    def measure(message, context):
        distance = float(np.abs(message.content["arrays"]["x"].numpy()).sum())
        number = message.content["config"]["scale"] * context.node_config["partition-id"]
        metrics = MetricRecord({"num-examples": 1, "distance": distance, "number": number})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    seen = []

    class Look(Callback):
        def after_round(self, loop, report):
            seen.append({**loop.metrics})

    nodes = EvaluateOnNodes(every=2, config=ConfigRecord({"scale": 10}))
    loop = RoundLoop(fedavg(fraction_evaluate=1.0), Federation(app, CLIENTS), [nodes, Look()])
    result = loop.run(record(x=START), 3)
    assert list(result.evaluate_metrics_clientapp) == [2, 3]
    assert "number" not in seen[0]
    assert seen[1]["number"] == pytest.approx(10.0)
    assert seen[2]["distance"] == pytest.approx(np.abs(values(result.arrays)["x"]).sum())
    assert loop.spent["evaluate"] > 0
    assert loop.seconds == pytest.approx(sum(loop.spent.values()))


@pytest.mark.parametrize("callback", [Evaluate, Checkpoints])
def test_every_is_checked(callback, tmp_path):
    with pytest.raises(ValueError, match="every is 0, but must be at least 1"):
        callback(tmp_path, every=0)


def test_the_last_line_says_how_it_ended(caplog):
    caplog.set_level(logging.INFO, "flwr.loop")
    RoundLoop(fedavg(), federation([])).run(record(x=START), 1)
    (line,) = [r.getMessage() for r in caplog.records if r.name == "flwr.loop"]
    assert line == "The run finished its 1 rounds."
