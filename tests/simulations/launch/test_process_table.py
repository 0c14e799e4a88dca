"""Both ways to list processes find the same ones."""

import os
import subprocess
import sys

import pytest

from simulations.launch import process_table

WAIT = "import sys; print(flush=True); sys.stdin.read()"


@pytest.fixture
def child():
    """Return a process of ours with odd characters in its command line."""
    process = subprocess.Popen(
        [sys.executable, "-c", WAIT, "a (b) c", b"\xff\xfe"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        process.stdout.readline()
        yield process


@pytest.mark.parametrize("way", [process_table.process_table, process_table._from_ps])
def test_a_child_is_listed_with_parent_and_command_until_it_ends(way, child):
    def listed():
        found = way()
        found = found.values() if isinstance(found, dict) else found
        return {process.pid: process for process in found}

    before = listed()
    assert before[child.pid].parent == os.getpid()
    assert before[child.pid].command.startswith(f"{sys.executable} -c import sys; ")
    assert "a (b) c" in before[child.pid].command
    assert before[child.pid].started == listed()[child.pid].started
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, but is not reaped
    assert child.pid not in listed()
