"""The whole way: SuperLink, `flwr run`, Ray, and nothing left of them afterwards."""

import socket
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest

from simulations.config import ConfigError
from simulations.launch.process_tree import ProcessTree
from simulations.launch.superlink import SuperLink
from simulations.runs.directory import RunDirectory
from simulations.runs.failures import RunFailure
from tests.simulations.experiments import assert_same, model_of, run, tiny


def marked_processes(mark):
    listing = subprocess.run(
        ["ps", "axeww", "-o", "pid=,args="], check=True, capture_output=True, text=True
    )
    lines = [line for line in listing.stdout.splitlines() if mark in line]
    return [line for line in lines if line.split()[1] != "ps"]


def test_runs_on_ray_equal_runs_in_process_and_leave_nothing_behind(tmp_path, monkeypatch):
    mark = f"mark-{uuid.uuid4().hex}"
    monkeypatch.setenv("FEDAU_TEST_MARK", mark)
    before = set(Path(tempfile.gettempdir()).glob("fedau-*"))
    hosts = {"num_server_rounds": 6, "evaluate_every": 3, "method": "mifa"}
    alone = {"num_server_rounds": 6, "evaluate_every": 3, "clients_per_node": 1}
    seen = []
    with SuperLink(workers=2) as link:
        assert marked_processes(mark)
        outcome = link.run(tiny(tmp_path, "hosts", **hosts), 2, seen.append)
        assert outcome == {
            "status": "finished",
            "round": 6,
            "sentence": "The run finished its 6 rounds.",
            "interrupted": False,
        }
        link.run(tiny(tmp_path, "alone", **alone), 14)
    assert seen
    assert marked_processes(mark) == []
    assert set(Path(tempfile.gettempdir()).glob("fedau-*")) == before
    for name, settings, nodes in (("hosts", hosts, 2), ("alone", alone, 14)):
        expected = run(tiny(tmp_path, f"{name}-in-process", **settings), nodes=nodes)
        actual = RunDirectory(tmp_path / name)
        assert_same(model_of(expected), model_of(actual))
        assert [entry["test_accuracy"] for entry in actual.metrics()] == [
            entry["test_accuracy"] for entry in expected.metrics()
        ]


def test_a_port_that_is_taken_is_said():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port is {port}, but must be free"):
            SuperLink(port=port)
    with pytest.raises(ConfigError, match="port is 70000, but must be in 0 to 65535"):
        SuperLink(port=70_000)


def test_a_superlink_that_does_not_come_up_is_said(monkeypatch):
    monkeypatch.setattr("simulations.launch.superlink.program", lambda name: "false")
    with pytest.raises(RunFailure, match="did not come up on port"), SuperLink():
        pass


def test_ending_a_tree_reaches_other_sessions():
    script = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " start_new_session=True)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    root = subprocess.Popen(["python3", "-c", script], stdout=subprocess.PIPE)
    assert root.stdout is not None
    root.stdout.readline()
    tree = ProcessTree(root)
    tree.observe()
    assert len(tree.alive()) == 1
    root.kill()
    root.wait()
    assert len(tree.alive()) == 1
    tree.end()
    root.stdout.close()
    assert tree.alive() == []
