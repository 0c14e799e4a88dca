"""One process and what it started; tests/deployment has those of Flower."""

import sys
import time

import pytest

from simulations.launch.process import (
    Process,
    descendants_of,
    end_remaining,
    flower_environment,
    still_running,
)

# Starts what Flower would: a child in a session of its own that is told who its parent is.
PARENT = """
import os, subprocess, sys, time
subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(600)", "--parent-pid", str(os.getpid())],
    start_new_session=True,
)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def process(tmp_path):
    process = Process(
        "parent",
        [sys.executable, "-c", PARENT],
        log=tmp_path / "log.txt",
        environment=flower_environment(tmp_path),
    )
    yield process
    process.stop()
    end_remaining(descendants_of([], dead=process.pids), timeout=0.0)


def start(process):
    process.start()
    process.wait_for("ready", timeout=30.0)


def test_children_of_earlier_starts_are_found(process):
    start(process)
    (child,) = process.descendants()
    process.kill()
    assert list(process.descendants()) == [child]
    start(process)
    assert len(process.pids) == 2
    assert process.pids[-1] == process.pid
    assert child not in process.descendants()
    assert list(descendants_of([], dead=process.pids[:-1])) == [child]


def test_stop_leaves_nothing_of_a_parent_that_was_killed(process):
    start(process)
    children = process.descendants()
    process.kill()
    process.stop()
    deadline = time.monotonic() + 5.0
    while still_running(children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert still_running(children) == []


def test_output_is_that_of_the_last_start(process, tmp_path):
    (tmp_path / "log.txt").write_text("of another day\n")
    start(process)
    assert process.output() == "ready\n"
    with process.open_output() as output:
        assert output.read() == "ready\n"
