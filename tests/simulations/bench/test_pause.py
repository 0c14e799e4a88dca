"""A run waits between rounds for whoever asked it to."""

import threading
import time
from types import SimpleNamespace

import pytest

from fedau_flwr.files import save_text
from simulations.bench import pause
from simulations.bench.pause import Pausing, pause_file, paused_file
from simulations.runs.directory import RunDirectory
from tests.simulations.experiments import run as run_tiny
from tests.simulations.experiments import tiny


def wait_if_asked(run, coming):
    Pausing(run).before_round(SimpleNamespace(round=coming - 1))


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path)


def waiting(run, coming):
    """Start to wait in a thread, and return it when the run has said that it waits."""
    thread = threading.Thread(target=wait_if_asked, args=(run, coming))
    thread.start()
    deadline = time.monotonic() + 10
    while not paused_file(run).exists():
        assert time.monotonic() < deadline
        time.sleep(0.001)
    return thread


def test_nobody_asked(run):
    wait_if_asked(run, 1)
    assert list(run.path.iterdir()) == []


def test_the_run_says_before_which_round_it_waits_and_goes_on_when_told(run):
    pause_file(run).touch()
    thread = waiting(run, 7)
    assert paused_file(run).read_text() == "7"
    thread.join(timeout=0.05)
    assert thread.is_alive()
    paused_file(run).unlink()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert list(run.path.iterdir()) == []


def test_who_asks_again_before_letting_go_gets_every_round(run):
    pause_file(run).touch()
    for coming in (1, 2, 3):
        thread = waiting(run, coming)
        assert paused_file(run).read_text() == f"{coming}"
        pause_file(run).touch()
        paused_file(run).unlink()
        thread.join(timeout=10)
    assert pause_file(run).exists()


def test_who_answers_at_once_is_heard(run, monkeypatch):
    def written_and_answered(path, text):
        save_text(path, text)
        pause_file(run).touch()
        path.unlink()

    monkeypatch.setattr(pause, "save_text", written_and_answered)
    pause_file(run).touch()
    wait_if_asked(run, 1)
    assert pause_file(run).exists()


def test_a_stop_ends_the_pause(run):
    pause_file(run).touch()
    thread = waiting(run, 2)
    run.stop_file.touch()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert [path.name for path in run.path.iterdir()] == ["stop"]


def test_a_run_with_this_callback_waits_before_its_first_round(tmp_path):
    config = tiny(tmp_path, "run", num_server_rounds=2)
    directory = RunDirectory(tmp_path / "run")
    directory.path.mkdir()
    pause_file(directory).touch()
    paused_file(directory).write_text("9")  # of a run that was killed
    options = {"callbacks": [Pausing(directory)]}
    thread = threading.Thread(target=run_tiny, args=(config,), kwargs=options)
    thread.start()
    deadline = time.monotonic() + 60
    while not paused_file(directory).exists() or paused_file(directory).read_text() != "1":
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert directory.outcome()["status"] == "running"
    paused_file(directory).unlink()
    thread.join(timeout=60)
    assert directory.outcome()["status"] == "finished"
