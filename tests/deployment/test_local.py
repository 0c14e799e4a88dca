"""`fedau deploy local` with the root app: up, Ctrl-C and all is down, `fedau resume` goes on."""

import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from simulations.launch.process import Process, flower_environment
from tests.deployment.history import last_version
from tests.processes import command_line, still_running

pytestmark = pytest.mark.deployment

# A program in the background of a script ignores SIGINT, and so does what pytest starts from there.
PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from fedau_flwr.cli import main; main()"
)
SETTINGS = (
    "num-server-rounds=1 dataset='synthetic:train=100:test=50' checkpoint-every=1 evaluate-every=1 "
    "method='fedawe'"  # whose clients keep a model, and get one more message after a round
)


@dataclass
class Scenario:
    directory: Path
    first: Process
    first_status: int
    programs: list[str]
    left_behind: list[psutil.Process]
    second: Process
    second_status: int


def fedau(arguments: list[str], log: Path, environment: dict[str, str]) -> Process:
    # A thread per ClientApp: on a small machine torch's own would fight for the cores.
    surroundings = flower_environment(log.parent / "home", environment | {"OMP_NUM_THREADS": "1"})
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return Process(f"fedau {arguments[0]}", command, log=log, environment=surroundings)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Scenario:
    directory = tmp_path_factory.mktemp("local")
    place = directory / "federation"
    options = ["--nodes", "2", "--directory", str(place), "--keep", "--run-config", SETTINGS]
    first = fedau(["deploy", "local", *options], directory / "deploy.log", environment)
    second = fedau(
        ["resume", str(place / "run"), "--rounds", "2"], directory / "2.log", environment
    )
    try:
        first.start()
        first.wait_for("stays up until Ctrl-C", timeout=300.0)
        started = first.descendants()
        programs = [command_line(process) for process in started]
        os.kill(first.pid, signal.SIGINT)
        time.sleep(0.5)  # it is stopping by now, and somebody has no patience
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if first.alive:
                os.kill(first.pid, number)
        first_status = first.wait(timeout=60.0)
        left_behind = still_running(started)
        second.start()
        second_status = second.wait(timeout=300.0)
    finally:
        first.stop()
        second.stop()
    return Scenario(
        directory=place,
        first=first,
        first_status=first_status,
        programs=[args for args in programs if "flower-super" in args],
        left_behind=left_behind,
        second=second,
        second_status=second_status,
    )


def test_one_command_runs_the_app_on_a_federation(scenario: Scenario) -> None:
    assert "2 nodes are connected." in scenario.first.output()
    assert "finished:completed" in scenario.first.output()
    # A SuperLink and two SuperNodes, each with its SuperExec.
    assert len(scenario.programs) == 6


def test_log_shows_every_round(scenario: Scenario) -> None:
    expected = "Round 1: 2 counted, 0 rejected, 0 without reply, "
    assert scenario.first.output().count(expected) == 1


def test_ctrl_c_stops_everything(scenario: Scenario) -> None:
    assert scenario.first_status == 130
    assert "everything was stopped" in scenario.first.output()
    assert scenario.left_behind == []


def test_resume_goes_on_where_it_stopped(scenario: Scenario) -> None:
    assert scenario.second_status == 0
    assert "Going on after round 1" in scenario.second.output()
    assert "Round 1:" not in scenario.second.output(), "the log of the run before"
    assert "Round 2: 2 counted, 0 rejected, 0 without reply, " in scenario.second.output()
    outcome = json.loads((scenario.directory / "run" / "outcome.json").read_text())
    assert (outcome["status"], outcome["round"]) == ("finished", 2)
    for node in range(2):
        version = last_version(scenario.directory / f"node-{node}" / "state")
        assert (version.round, version.state.weight) == (2, 1.0)
        # What came after round 1, before everything was stopped, and after round 2.
        assert version.memory is not None
        assert {*version.memory} == {"own"}
        assert version.received is not None


def test_metrics_are_there_for_a_dashboard(scenario: Scenario) -> None:
    path = scenario.directory / "run" / "metrics.prom"
    lines = path.read_text().splitlines()
    label = f'{{run="{path.parent}"}}'
    for name, value in {"fedau_round": 2, "fedau_attempt": 2, "fedau_participants": 2}.items():
        assert f"{name}{label} {value}" in lines
    assert os.access(path, os.R_OK)
