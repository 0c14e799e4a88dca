"""One program and what it started; tests/deployment has those of Flower."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from simulations.launch.process import Process, flower_environment, stop_together
from tests.processes import command_line, still_running

# Starts what Flower would: a child in a session of its own that is told who its parent is.
TOLD = """
import os, subprocess, sys, time
subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(600)", "--parent-pid", str(os.getpid())],
    start_new_session=True,
)
print("ready", flush=True)
time.sleep(600)
"""
# As Ray does: its child has a child, and neither is told anything.
UNTOLD = """
import subprocess, sys, time
CHILD = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', %r], " \\
    "start_new_session=True); print('ready', flush=True); time.sleep(600)" % (
    "import time; time.sleep(600)")
subprocess.Popen([sys.executable, "-c", CHILD], start_new_session=True)
time.sleep(600)
"""
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def make(tmp_path):
    made = []

    def make(program):
        process = Process(
            "program",
            [sys.executable, "-c", program],
            log=tmp_path / f"log-{len(made)}.txt",
            environment=flower_environment(tmp_path),
        )
        made.append(process)
        return process

    yield make
    stop_together(made, timeout=0.0)


def start(process):
    process.start()
    process.wait_for("ready", timeout=30.0)
    return process


def test_children_of_earlier_starts_are_found(make):
    process = start(make(TOLD))
    process.kill()
    (orphan,) = process.descendants()
    start(process)
    assert len(process.pids) == 2
    assert process.pids[-1] == process.pid
    assert orphan in process.descendants()
    assert len(process.descendants()) == 2


def test_stop_leaves_nothing_of_a_parent_that_was_killed(make):
    process = start(make(TOLD))
    process.kill()
    (child,) = process.descendants()
    assert command_line(child).endswith(f"--parent-pid {process.pid}")
    process.stop()
    assert still_running([child]) == []
    assert command_line(child) == ""
    assert process.descendants() == []


def test_what_was_seen_is_reached_when_its_parents_are_dead(make):
    process = start(make(UNTOLD))
    child, grandchild = process.descendants()
    assert grandchild.ppid() == child.pid
    process.kill()
    child.kill()
    deadline = time.monotonic() + 10.0
    while still_running([child]) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.descendants() == [grandchild]
    process.stop()
    assert still_running([grandchild]) == []


def test_a_stranger_with_a_dead_parents_number_is_left_alone(make):
    process = start(make(TOLD))
    process.kill()
    process.stop()
    # The system gives the number away again: to this very process, for the test.
    process.pids.append(os.getpid())
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen([*command, "--parent-pid", str(os.getpid())]) as stranger:
        try:
            assert process.descendants() == []
            process.stop()
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_who_does_not_listen_is_killed(make):
    deaf, polite = start(make(DEAF)), start(make(TOLD))
    before = time.monotonic()
    stop_together([deaf, polite], timeout=0.5)
    assert time.monotonic() - before < 10.0
    assert deaf.returncode == -9
    assert polite.returncode == -15


def test_one_that_is_suspended_does_nothing_until_it_goes_on(make):
    beats = "import time\nprint('ready', flush=True)\n"
    process = start(make(beats + "while True:\n time.sleep(0.01)\n print('beat', flush=True)"))
    process.wait_for("beat", timeout=30.0)
    process.suspend()
    psutil_wait(process, psutil.STATUS_STOPPED)
    before = process.output()
    time.sleep(0.2)
    assert process.output() == before
    process.resume()
    process.wait_for(before + "beat", timeout=30.0)
    process.suspend()
    process.stop()
    assert not process.alive
    process.suspend()
    process.resume()


def psutil_wait(process, status):
    deadline = time.monotonic() + 30.0
    while psutil.Process(process.pid).status() != status and time.monotonic() < deadline:
        time.sleep(0.01)
    assert psutil.Process(process.pid).status() == status


def test_one_that_ended_but_was_not_reaped_does_not_run(make):
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        process = psutil.Process(child.pid)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert still_running([process]) == []


def test_output_is_that_of_the_last_start(make):
    process = make(TOLD)
    process.log.write_text("of another day\n")
    start(process)
    assert process.output() == "ready\n"
    with process.open_output() as output:
        assert output.read() == "ready\n"


def test_the_reason_is_the_last_line_with_an_error(make):
    process = make("print('one\\nTypeError:  two\\nthree')")
    process.start()
    process.wait(timeout=30.0)
    assert process.reason() == "TypeError: two"
    silent = make("")
    silent.start()
    silent.wait(timeout=30.0)
    assert silent.reason() == "it wrote nothing"


def test_an_end_before_the_text_is_an_error(make):
    process = make("raise SystemExit(3)")
    process.start()
    with pytest.raises(RuntimeError, match=r"'ready' from program, which ended with status 3"):
        process.wait_for("ready", timeout=30.0)


def test_loopback_never_goes_through_a_proxy(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "intranet")
    environment = flower_environment(tmp_path, {"OWN": "1"})
    assert environment["NO_PROXY"] == environment["no_proxy"] == "intranet,127.0.0.1,localhost"
    assert (environment["FLWR_HOME"], environment["OWN"]) == (str(tmp_path), "1")
