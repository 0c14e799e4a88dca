"""The whole way: SuperLink, `flwr run`, Ray, and nothing left of them afterwards."""

import json
import sys
import tempfile
import uuid
from pathlib import Path

import numpy as np
import psutil
import pytest

from fedau_flwr.server.loop import RunFailure
from simulations.launch.process import Process, flower_environment
from simulations.launch.simulator import Simulator
from simulations.runs.directory import RunDirectory
from tests.deployment.conftest import APP
from tests.deployment.history import History
from tests.processes import marked_processes
from tests.simulations.experiments import assert_same, model_of, run, tiny

HOSTS = {"num_server_rounds": 6, "evaluate_every": 3, "method": "mifa"}
ALONE = {"num_server_rounds": 6, "evaluate_every": 3, "clients_per_node": 1}
BROKEN_OFF = {"num_server_rounds": 100_000, "evaluate_every": 1, "checkpoint_every": 1}
CLIENTS, ROUNDS, FAILS_EVERY = 10, 5, 3


def leave_after_a_round(run):
    if (run.progress() or {}).get("round", 0):
        raise SystemExit


@pytest.fixture(scope="module")
def mark():
    return f"mark-{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory, mark):
    """Return the directory of three runs on one SuperLink that is gone already."""
    directory = tmp_path_factory.mktemp("runs")
    before = set(Path(tempfile.gettempdir()).glob("fedau-*"))
    with Simulator(workers=2, environment={"FEDAU_TEST_MARK": mark}) as simulator:
        assert marked_processes(mark)
        seen = []
        outcome = simulator.run(tiny(directory, "hosts", **HOSTS), 2, seen.append)
        assert outcome == {
            "status": "finished",
            "round": 6,
            "sentence": "The run finished its 6 rounds.",
            "interrupted": False,
        }
        assert seen
        simulator.run(tiny(directory, "alone", **ALONE), 14)
        numpy_app = simulator.link.run_app(
            APP,
            {
                "num-server-rounds": ROUNDS,
                "num-clients": CLIENTS,
                "wait-for": CLIENTS,
                "fails-every": FAILS_EVERY,
                "directory": str(directory),
            },
            log=directory / "flower.txt",
            engine={"num-supernodes": CLIENTS, "client-resources-num-cpus": 1},
        )
        assert numpy_app.wait(timeout=240.0) == 0, numpy_app.output()
        with pytest.raises(SystemExit):
            simulator.run(tiny(directory, "broken-off", **BROKEN_OFF), 2, leave_after_a_round)
        temporary = set(Path(tempfile.gettempdir()).glob("fedau-*")) - before
        assert simulator.link.home.parent in temporary
    assert not simulator.link.home.parent.exists()
    return directory


@pytest.mark.engine
@pytest.mark.parametrize(("name", "settings", "nodes"), [("hosts", HOSTS, 2), ("alone", ALONE, 14)])
def test_runs_on_ray_equal_runs_in_process(runs, tmp_path, name, settings, nodes):
    expected = run(tiny(tmp_path, name, **settings), nodes=nodes)
    actual = RunDirectory(runs / name)
    assert_same(model_of(expected), model_of(actual))
    assert [entry["test_accuracy"] for entry in actual.metrics()] == [
        entry["test_accuracy"] for entry in expected.metrics()
    ]
    assert "Traceback" not in (runs / name / "flower.txt").read_text()


@pytest.mark.engine
def test_a_numpy_app_ends_where_the_formula_does(runs):
    """The plugin alone on Flower's real engine, with an app of its own."""
    path = [
        [client for client in range(CLIENTS) if (number + client) % FAILS_EVERY]
        for number in range(1, ROUNDS + 1)
    ]
    records = [json.loads(line) for line in (runs / "rounds.jsonl").read_text().splitlines()]
    assert [len(record["counted"]) for record in records] == [len(counted) for counted in path]
    expected = History(path).model(CLIENTS)
    np.testing.assert_allclose(np.load(runs / "model.npy"), expected, rtol=1e-5)


@pytest.mark.engine
def test_a_run_that_is_broken_off_says_how_to_go_on(runs):
    """Whatever its server noticed of the end of all others."""
    run = RunDirectory(runs / "broken-off")
    outcome = run.outcome()
    assert outcome["status"] == "failed"
    assert outcome["round"] >= 1
    sentence = f"The run was broken off; go on with `fedau resume {run.path}`."
    assert outcome["sentence"] == sentence
    assert run.checkpoint_file.exists()


@pytest.mark.engine
@pytest.mark.usefixtures("runs")
def test_nothing_is_left_behind(mark):
    assert marked_processes(mark) == []


# Writes its outcome when it is asked to stop after its round, as a run does.
BEGUN = """
import json, pathlib, sys
outcome = {"status": "running", "round": 0, "sentence": "The run is going on."}
(pathlib.Path(sys.argv[1]) / "outcome.json").write_text(json.dumps(outcome))
"""
POLITE = """
import json, pathlib, sys, time
run = pathlib.Path(sys.argv[1])
while not (run / "stop").exists():
    time.sleep(0.01)
outcome = {"status": "stopped", "round": 2, "sentence": "The run was stopped."}
(run / "outcome.json").write_text(json.dumps(outcome))
"""
BUSY = "import time; time.sleep(600)"


class Link:
    """Runs a program where a SuperLink would run an app."""

    def __init__(self, program):
        self.program = program
        self.alive = True
        self.superexec = None

    def observe(self):
        pass

    def reason(self):
        return "out of memory"

    def run_app(self, app, config, *, log, engine):
        self.engine = engine
        command = [sys.executable, "-c", self.program, config["run-dir"]]
        environment = flower_environment(log.parent)
        self.process = Process("run", command, log=log, environment=environment)
        self.process.start()
        return self.process


def interrupted(link, directory, times, happens=KeyboardInterrupt):
    """Run on `link`, with so many interruptions."""
    left = [None] * times

    def follow(run):
        if left:
            left.pop()
            raise happens

    simulator = Simulator(workers=3)
    simulator.link = link
    try:
        return simulator.run_app(APP, {"run-dir": str(directory)}, 5, follow)
    finally:
        assert not link.process.alive
        assert link.engine == {
            "num-supernodes": 5,
            "client-resources-num-cpus": 1,
            "client-resources-num-gpus": 0.0,
        }


def test_ctrl_c_stops_after_the_round(tmp_path):
    outcome = interrupted(Link(POLITE), tmp_path, 1)
    assert (outcome["status"], outcome["round"], outcome["interrupted"]) == ("stopped", 2, True)


def test_a_second_ctrl_c_ends_at_once_and_says_how_to_go_on(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        interrupted(Link(BUSY), tmp_path, 2)
    outcome = RunDirectory(tmp_path).outcome()
    assert outcome["status"] == "failed"
    assert outcome["sentence"].endswith(f"go on with `fedau resume {tmp_path}`.")


def test_a_superlink_that_ends_is_said(tmp_path):
    link = Link(BUSY)

    def end(run):
        link.alive = False

    simulator = Simulator()
    simulator.link = link
    with pytest.raises(RunFailure, match=r"^The SuperLink ended: out of memory$"):
        simulator.run_app(APP, {"run-dir": str(tmp_path)}, 5, end)
    assert not link.process.alive


def test_a_superexec_that_ends_is_said(tmp_path):
    link = Link(BUSY)
    link.superexec = Process(
        "SuperExec", ["sh", "-c", "echo it broke"], log=tmp_path / "log", environment={}
    )
    link.superexec.start()
    link.superexec.wait(timeout=60.0)
    simulator = Simulator()
    simulator.link = link
    with pytest.raises(RunFailure, match=r"^The SuperExec ended: it broke$"):
        simulator.run_app(APP, {"run-dir": str(tmp_path)}, 5)
    assert not link.process.alive


def test_the_superexec_rests_while_the_run_that_it_started_goes_on(tmp_path):
    link = Link(BEGUN + POLITE)
    command = [sys.executable, "-c", BUSY]
    link.superexec = Process("SuperExec", command, log=tmp_path / "log", environment={})
    link.superexec.start()
    simulator = Simulator()
    simulator.link = link
    seen = []

    def follow(run):
        seen.append(psutil.Process(link.superexec.pid).status())
        if seen[-1] == psutil.STATUS_STOPPED:
            run.stop_file.touch()

    try:
        outcome = simulator.run_app(APP, {"run-dir": str(tmp_path / "run")}, 5, follow)
        assert outcome["status"] == "stopped"
        assert seen[0] != psutil.STATUS_STOPPED
        assert psutil.Process(link.superexec.pid).status() != psutil.STATUS_STOPPED
    finally:
        link.superexec.stop()


def test_a_run_without_an_outcome_is_said(tmp_path):
    with pytest.raises(RunFailure, match=r"flower\.txt says why: ZeroDivisionError: division"):
        interrupted(Link("1 / 0"), tmp_path, 0)
