"""Simulations on the round loop: packing, resume, loss, and the ways in which a run ends."""

import json
import logging
import os
import sys
from collections import defaultdict

import numpy as np
import pytest

from fedau_flwr import FedAUWeighting
from fedau_flwr.availability import HostGrid
from fedau_flwr.availability.host_grid import deal
from fedau_flwr.server.callbacks import Callback
from fedau_flwr.server.callbacks.checkpoints import load_checkpoint, save_checkpoint
from fedau_flwr.server.callbacks.conditions import UNCOUNTED_ROUNDS
from fedau_flwr.server.loop import RunFailure
from fedau_flwr.testing.in_process_grid import InProcessGrid
from fedau_flwr.wire.records import decode_all
from simulations.client_app import app
from simulations.config import ConfigError
from simulations.launch.process import run_program
from simulations.methods import METHODS as REGISTRY
from simulations.nodes.resident import initial_parameters
from simulations.runs import directory as run_directory
from simulations.runs.experiment import open_experiment
from simulations.runs.reports import PHASES
from simulations.server_app import await_engine, run_experiment
from tests.simulations.experiments import Crash, assert_same, model_of, run, tiny

FLOAT32_SUM = defaultdict(lambda: 2e-5, mimic=1e-4)
"""By method: MimiC's corrections carry the rounding of one sum on into the next ones."""
METHODS = REGISTRY.ours()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return a function that runs a method over 20 rounds once, and its result ever after."""
    directory = tmp_path_factory.mktemp("straight")
    done = {}

    def straight(method, per_node=0):
        if (method, per_node) not in done:
            config = tiny(
                directory, f"{method}-{per_node}", method=method, clients_per_node=per_node
            )
            done[method, per_node] = run(config)
        return done[method, per_node]

    return straight


def reports(directory):
    return [
        {key: value for key, value in entry.items() if not key.endswith("seconds")}
        for entry in directory.metrics()
    ]


@pytest.mark.parametrize("method", METHODS)
def test_packing_does_not_change_the_model(runs, method):
    one = model_of(runs(method, 1))
    assert_same(one, model_of(runs(method, 7)), atol=FLOAT32_SUM[method])
    assert_same(one, model_of(runs(method, 0)), atol=FLOAT32_SUM[method])


def test_methods_differ(runs):
    weights = {m: model_of(runs(m, 0))["dense.0.weight"] for m in METHODS}
    for index, left in enumerate(METHODS):
        for right in METHODS[index + 1 :]:
            assert not np.array_equal(weights[left], weights[right]), (left, right)


@pytest.mark.parametrize("method", METHODS)
def test_resume_continues_bit_for_bit(runs, method, tmp_path):
    half = tiny(tmp_path, "half", method=method, num_server_rounds=10)
    run(half)
    whole = run(tiny(tmp_path, "half", method=method, resume=True))
    straight = runs(method, 0)
    assert_same(model_of(straight), model_of(whole))
    assert reports(straight)[-1] == reports(whole)[-1]
    with (
        np.load(straight.participation_file) as left,
        np.load(whole.participation_file) as right,
    ):
        assert set(left.files) == set(right.files)
        for name in left.files:
            np.testing.assert_array_equal(left[name], right[name], err_msg=name)


@pytest.mark.parametrize("method", ["fedau", "mifa", "fedawe", "mimic", "fedavg"])
@pytest.mark.parametrize("per_node", [1, 0])
def test_resume_after_a_crash_between_checkpoints(runs, method, per_node, tmp_path):
    settings = {"method": method, "clients_per_node": per_node}
    with pytest.raises(Crash):
        run(tiny(tmp_path, "run", **settings), crash_after=15)
    with pytest.raises(Crash):
        run(tiny(tmp_path, "run", resume=True, **settings), crash_after=17)
    whole = run(tiny(tmp_path, "run", resume=True, **settings))
    assert_same(model_of(runs(method, per_node)), model_of(whole))


def test_the_mean_of_all_models_can_be_evaluated_instead_of_fedawes_aggregate(runs, tmp_path):
    aggregate = runs("fedawe", 0)
    mean = run(tiny(tmp_path, "mean", method="fedawe:mean=true"))
    assert_same(model_of(aggregate), model_of(mean))
    assert reports(aggregate)[-1]["train_loss"] != reports(mean)[-1]["train_loss"]


@pytest.mark.parametrize("method", ["fedawe", "mimic"])
def test_lost_replies_and_deliveries_do_not_hurt_a_resume(method, tmp_path):
    settings = {"method": method, "reply_loss": 0.4, "clients_per_node": 1}
    straight = run(tiny(tmp_path, "straight", **settings))
    with pytest.raises(Crash):
        run(tiny(tmp_path, "run", **settings), crash_after=15)
    whole = run(tiny(tmp_path, "run", resume=True, **settings))
    assert_same(model_of(straight), model_of(whole))
    held = load_checkpoint(straight.checkpoint_file)["strategy"]["deliveries"]["waiting"]
    assert (len(held) > 0) == (method == "mimic")


@pytest.mark.parametrize("method", METHODS)
def test_resume_with_another_packing(runs, method, tmp_path):
    run(tiny(tmp_path, "run", method=method, num_server_rounds=9, clients_per_node=1))
    whole = run(tiny(tmp_path, "run", method=method, clients_per_node=7, resume=True))
    assert_same(model_of(runs(method, 0)), model_of(whole), atol=FLOAT32_SUM[method])


@pytest.mark.parametrize("per_node", [1, 4])
@pytest.mark.parametrize("method", ["fedau", "fedstale", "fedawe", "mimic"])
def test_a_secure_sum_gives_the_same_model_to_the_rounding_of_the_grid(method, per_node, tmp_path):
    settings = {
        "method": method,
        "clients_per_node": per_node,
        "mean_participation": 0.8,
        "alpha_participation": 1e3,
        "num_server_rounds": 6,
    }
    plain = run(tiny(tmp_path, "plain", **settings))
    secure = run(tiny(tmp_path, "secure", **settings, secure_sum=True))
    with np.load(plain.participation_file) as left, np.load(secure.participation_file) as right:
        np.testing.assert_array_equal(left["counted"], right["counted"])
        assert left["counted"].sum() > 40
    # Each of 14 contributions is off by less than a step of 2^-18 at most, in each of 6 rounds, and
    # what follows from it.
    one, other = model_of(plain), model_of(secure)
    assert_same(one, other, atol=14 * 6 * 2.0**-18)
    assert not all(np.array_equal(one[name], other[name]) for name in one)


def test_a_secure_run_resumes_bit_for_bit(tmp_path):
    settings = {"clients_per_node": 1, "mean_participation": 0.8, "secure_sum": True}
    straight = run(tiny(tmp_path, "straight", **settings, num_server_rounds=8))
    run(tiny(tmp_path, "half", **settings, num_server_rounds=4))
    whole = run(tiny(tmp_path, "half", **settings, num_server_rounds=8, resume=True))
    assert_same(model_of(straight), model_of(whole))


def test_a_secure_sum_needs_nodes_to_hide_among(tmp_path):
    with pytest.raises(
        ConfigError, match="needs at least 3 SuperNodes to hide among, but there are 2"
    ):
        run(tiny(tmp_path, "secure", secure_sum=True), nodes=2)


def test_rounds_too_thin_for_a_secure_sum_count_nobody_and_do_not_end_the_run(tmp_path):
    config = tiny(
        tmp_path,
        "thin",
        secure_sum=True,
        clients_per_node=1,
        mean_participation=0.04,
        alpha_participation=1e3,
        num_server_rounds=80,
    )
    process = open_experiment(config).process
    numbers = np.array([process.active(t).sum() for t in range(80)])
    thin = (numbers > 0) & (numbers < 3)
    assert thin.sum() > UNCOUNTED_ROUNDS
    directory = run(config)
    assert directory.outcome()["status"] == "finished"
    with np.load(directory.participation_file) as file:
        assert file["participated"].sum() == numbers.sum()
        assert file["counted"].sum() == numbers[numbers >= 3].sum()


def test_a_run_leaves_its_results(runs):
    directory = runs("fedau", 0)
    config = directory.config()
    experiment = open_experiment(config)
    assert directory.outcome()["status"] == "finished"
    assert [entry["round"] for entry in directory.metrics()] == [10, 20]
    assert len(directory.metrics()[0]["test_class_accuracy"]) == 10
    active = np.array([experiment.process.active(t) for t in range(20)])
    with np.load(directory.participation_file) as file:
        np.testing.assert_array_equal(file["participated"], active.sum(axis=0))
        np.testing.assert_array_equal(file["counted"], active.sum(axis=0))
        weighting = FedAUWeighting()
        for client, weight in enumerate(file["weight"]):
            state = weighting.initial()
            for there in active[:, client]:
                state = weighting.advance(state, bool(there))
            assert weight == state.weight
        assert file["mean_weight"].shape == (20,)
        assert file["tracked_weights"].shape == (20, len(file["tracked"]))
    with np.load(directory.times_file) as file:
        assert file["resident"] > 1e7
        seconds = {name: file[name] for name in PHASES}
    assert all(len(times) == 20 for times in seconds.values())
    assert (seconds["exchange"] > 0).all()
    np.testing.assert_array_equal(np.flatnonzero(seconds["evaluate"]), [9, 19])
    np.testing.assert_array_equal(np.flatnonzero(seconds["checkpoint"]), [6, 12, 18])
    with np.load(directory.clients_file) as file:
        sizes = experiment.split.sizes
        weighted = np.nansum(file["train_accuracy"] * sizes) / sizes.sum()
        assert weighted == pytest.approx(directory.metrics()[-1]["train_accuracy"])


def test_a_lost_host_means_that_none_of_its_participants_counted(tmp_path):
    directory = run(tiny(tmp_path, "lossy", reply_loss=0.5, clients_per_node=7))
    experiment = open_experiment(directory.config())
    with np.load(directory.participation_file) as file:
        participated, counted = file["participated"], file["counted"]
    assert 0 < counted.sum() < participated.sum()
    # Whoever knows the seed of the losses knows the hosts whose replies did not arrive.
    grid = HostGrid(None, experiment.process, loss=0.5, seed=1)
    expected = np.zeros(14, int)
    for t in range(20):
        rosters = deal(np.flatnonzero(experiment.process.active(t)), 2)
        for host, roster in enumerate(rosters):
            if not grid.lost(t + 1)[host]:
                expected[roster] += 1
    np.testing.assert_array_equal(counted, expected)


def test_rounds_without_anybody_leave_the_model_as_it_is(tmp_path):
    trace = tmp_path / "nobody.csv"
    trace.write_text("\n".join([",".join("0" * 14)] * 2))
    for method in ("fedau", "fedavg", "fedvarp"):
        settings = {"method": method, "pattern": f"trace:{trace}"}
        directory = run(tiny(tmp_path, method, num_server_rounds=3, evaluate_every=1, **settings))
        assert len({entry["train_loss"] for entry in directory.metrics()}) == 1


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"method": "fedau"}, "in 20 rounds with participants no update was finite and valid"),
        ({"method": "fedavg"}, "its model has values that are no finite numbers"),
        (
            {"lr": 0.1, "server_lr": 1e30, "evaluate_every": 1},
            "its loss is no finite number any more",
        ),
        (
            {"method": "fedau", "reply_loss": 0.1},
            "in 20 rounds with participants no update was finite and valid",
        ),
        (
            {"secure_sum": True, "clients_per_node": 1, "mean_participation": 0.8},
            "in 20 rounds with participants no update was finite and valid",
        ),
    ],
)
def test_a_model_that_is_lost_ends_the_run_in_one_sentence(tmp_path, settings, reason):
    settings = {"lr": 1e30, "num_server_rounds": 30} | settings
    directory = run(tiny(tmp_path, "run", **settings))
    outcome = directory.outcome()
    assert outcome["status"] == "diverged"
    assert outcome["sentence"].endswith(f", because {reason}.")
    last = directory.metrics_file.read_text().splitlines()[-1]
    assert json.loads(last)["round"] == outcome["round"]


class StopIn(Callback):
    """Somebody who asks for a stop while a round goes on."""

    def __init__(self, number, directory):
        self.number, self.directory = number, directory

    def after_round(self, loop, report):
        if loop.round == self.number:
            (self.directory / "stop").touch()


def test_a_stop_file_stops_after_the_round_with_a_checkpoint(runs, tmp_path):
    directory = run(tiny(tmp_path, "run"), callbacks=[StopIn(8, tmp_path / "run")])
    assert directory.outcome()["status"] == "stopped"
    assert directory.outcome()["round"] == 8
    assert f"go on with `fedau resume {directory.path}`." in directory.outcome()["sentence"]
    assert not directory.stop_file.exists()
    whole = run(tiny(tmp_path, "run", resume=True))
    assert_same(model_of(runs("fedau", 0)), model_of(whole))


def test_a_stop_before_the_first_round_is_not_lost(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "stop").touch()
    directory = run(tiny(tmp_path, "run"))
    assert (directory.outcome()["status"], directory.outcome()["round"]) == ("stopped", 1)


def test_a_stop_in_the_last_round_does_not_stay_behind(tmp_path):
    config = tiny(tmp_path, "run", num_server_rounds=3)
    directory = run(config, callbacks=[StopIn(3, tmp_path / "run")])
    assert directory.outcome()["status"] == "finished"
    assert not directory.stop_file.exists()


def test_a_full_disk_while_checkpointing_is_said_and_leaves_the_last_one(tmp_path, monkeypatch):
    config = tiny(tmp_path, "run")
    calls = []

    def full(file, **arrays):
        calls.append(file)
        if len(calls) > 6:
            file.write(b"partial")
            raise OSError(28, "No space left on device")
        real(file, **arrays)

    real = np.savez
    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(RunFailure, match=r"checkpoint of round 12 .*No space left .*round 6"):
        run(config)
    monkeypatch.undo()
    assert not list((tmp_path / "run").glob(".*"))
    assert run_directory.RunDirectory(tmp_path / "run").outcome()["status"] == "failed"
    assert run(tiny(tmp_path, "run", resume=True)).outcome()["status"] == "finished"


def test_whatever_ends_a_run_is_said_in_its_outcome(tmp_path):
    with pytest.raises(Crash):
        run(tiny(tmp_path, "run"), crash_after=8)
    outcome = run_directory.RunDirectory(tmp_path / "run").outcome()
    assert outcome == {"status": "failed", "round": 7, "sentence": "Crash: no sentence"}


def test_a_checkpoint_of_version_0_1_is_gone_on_from(runs, tmp_path):
    directory = run(tiny(tmp_path, "run", num_server_rounds=10))
    state = load_checkpoint(directory.checkpoint_file)
    callbacks = state.pop("callbacks")
    del state["attempt"]
    came = (callbacks["ParticipationRecord"][key].sum() for key in ("participated", "counted"))
    state["record"] = {**callbacks["ParticipationRecord"], "reported": (10, *came)}
    state["uncounted"] = callbacks["StopOnDivergence"]["uncounted"]
    save_checkpoint(directory.checkpoint_file, state)
    whole = run(tiny(tmp_path, "run", resume=True))
    assert_same(model_of(runs("fedau", 0)), model_of(whole))
    assert reports(runs("fedau", 0)) == reports(whole)


def test_one_log_line_per_report_and_none_per_round(tmp_path, caplog):
    for method in ("fedau", "fedavg"):
        directory = run(tiny(tmp_path, method, method=method))
        lines = directory.log_file.read_text().splitlines()
        assert len([line for line in lines if "Round" in line]) == 2
        assert len(lines) <= 5, lines
    assert logging.getLogger("flwr.fedau").level != logging.WARNING


def test_wrong_directories_are_refused(tmp_path):
    run(tiny(tmp_path, "run", num_server_rounds=1))
    with pytest.raises(ConfigError, match="must not hold a run yet"):
        run(tiny(tmp_path, "run"))
    with pytest.raises(ConfigError, match="method is 'fedau:cutoff=7', but must be 'fedau'"):
        run(tiny(tmp_path, "run", method="fedau:7", resume=True))
    with pytest.raises(ConfigError, match=r"with a config\.toml"):
        run(tiny(tmp_path, "nothing", resume=True))


def test_a_packing_that_does_not_fit_the_nodes_is_refused(tmp_path):
    config = tiny(tmp_path, "run", clients_per_node=4)
    with pytest.raises(ConfigError, match="needs 4 SuperNodes, but 2 are there"):
        run(config, nodes=2)


def test_a_grid_without_nodes_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("simulations.server_app.CONNECT_SECONDS", 0.2)
    config = tiny(tmp_path, "run")
    with pytest.raises(ConfigError, match=r"No SuperNode has connected within 0\.2 seconds"):
        run_experiment(InProcessGrid(app, 0, config.to_dict()), config)
    assert run_directory.RunDirectory(tmp_path / "run").outcome()["status"] == "failed"


def test_the_server_of_a_simulation_does_without_torch():
    """It takes a second of every start, and 200 MB for as long as a run lasts."""
    program = "import sys, simulations.server_app, simulations.client_app; print(*sys.modules)"
    said = run_program([sys.executable, "-c", program], os.environ).stdout.split()
    assert "simulations.server_app" in said
    assert "torch" not in said


def test_the_nodes_say_what_the_run_starts_from_and_what_makes_its_steps(tmp_path):
    config = tiny(tmp_path, "run", num_server_rounds=1, kernel="auto")
    assert run(config).config().kernel == "torch"
    start = await_engine(InProcessGrid(app, 2, config.to_dict()))
    assert start.config_records["steps"]["why"].startswith("the native step is for the paper's")
    expected = initial_parameters(config.task, seed=config.seed)
    assert_same(expected, decode_all(start.array_records["arrays"]))
