"""A run waits between rounds for whoever asked it to."""

import threading
import time

import pytest

from simulations.runs import pause
from simulations.runs.directory import RunDirectory, write_atomically
from simulations.runs.pause import wait_if_asked


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path)


def waiting(run, coming):
    """Start to wait in a thread, and return it when the run has said that it waits."""
    thread = threading.Thread(target=wait_if_asked, args=(run, coming))
    thread.start()
    deadline = time.monotonic() + 10
    while not run.paused_file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return thread


def test_nobody_asked(run):
    wait_if_asked(run, 1)
    assert list(run.path.iterdir()) == []


def test_the_run_says_before_which_round_it_waits_and_goes_on_when_told(run):
    run.pause_file.touch()
    thread = waiting(run, 7)
    assert run.paused_file.read_text() == "7"
    thread.join(timeout=0.05)
    assert thread.is_alive()
    run.paused_file.unlink()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert list(run.path.iterdir()) == []


def test_who_asks_again_before_letting_go_gets_every_round(run):
    run.pause_file.touch()
    for coming in (1, 2, 3):
        thread = waiting(run, coming)
        assert run.paused_file.read_text() == f"{coming}"
        run.pause_file.touch()
        run.paused_file.unlink()
        thread.join(timeout=10)
    assert run.pause_file.exists()


def test_who_answers_at_once_is_heard(run, monkeypatch):
    def written_and_answered(path, write):
        write_atomically(path, write)
        run.pause_file.touch()
        path.unlink()

    monkeypatch.setattr(pause, "write_atomically", written_and_answered)
    run.pause_file.touch()
    wait_if_asked(run, 1)
    assert run.pause_file.exists()


def test_a_stop_ends_the_pause(run):
    run.pause_file.touch()
    thread = waiting(run, 2)
    run.stop_file.touch()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert [path.name for path in run.path.iterdir()] == ["stop"]
