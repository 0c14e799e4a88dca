"""How a local federation ends, without starting one; tests/deployment does."""

import io
import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from simulations.config import ConfigError
from simulations.launch import local
from simulations.launch.federation import Federation
from simulations.launch.local import deploy_local
from simulations.launch.process import Process
from simulations.launch.signals import SIGNALS


@pytest.fixture
def stopped(monkeypatch):
    """Return a list of the federations that were stopped, each while all signals came in."""
    # A program in the background of a script or under nohup ignores some, and so may these tests.
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    stopped = []

    def stop(federation):
        for number in SIGNALS:
            os.kill(os.getpid(), number)
        stopped.append(federation)

    monkeypatch.setattr(Federation, "stop", stop)
    yield stopped
    for number, handler in before.items():
        signal.signal(number, handler)


def deploy(tmp_path, monkeypatch, scenario, **options):
    monkeypatch.setattr(local, "_run", scenario)
    output = io.StringIO()
    status = deploy_local(tmp_path, tmp_path, nodes=1, output=output, **options)
    return status, output.getvalue()


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_does_not_disturb_the_end(tmp_path, monkeypatch, stopped, number):
    before = [signal.getsignal(each) for each in SIGNALS]
    status, said = deploy(tmp_path, monkeypatch, lambda *_: os.kill(os.getpid(), number))
    assert (status, said) == (130, "Interrupted: everything was stopped.\n")
    assert len(stopped) == 1
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_a_signal_at_the_end_changes_nothing(tmp_path, monkeypatch, stopped):
    assert deploy(tmp_path, monkeypatch, lambda *_: 0) == (0, "")
    assert len(stopped) == 1


def test_what_was_ignored_stays_ignored(tmp_path, monkeypatch, stopped):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:

        def scenario(*_):
            os.kill(os.getpid(), signal.SIGHUP)
            return 0

        assert deploy(tmp_path, monkeypatch, scenario) == (0, "")
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("kind", [RuntimeError, TimeoutError])
def test_failures_are_a_sentence(tmp_path, monkeypatch, stopped, kind):
    def scenario(*_):
        raise kind("the run is still running after 60 s.")

    expected = "The federation failed: the run is still running after 60 s.\n"
    assert deploy(tmp_path, monkeypatch, scenario) == (1, expected)
    assert len(stopped) == 1


def test_keys_that_cannot_be_made_are_a_sentence(tmp_path, monkeypatch, stopped):
    (tmp_path / "secrets").touch()
    status, said = deploy(tmp_path, monkeypatch, lambda federation, *_: federation.start())
    assert status == 1
    assert said == (
        f"The federation failed: The keys could not be made: {tmp_path / 'secrets'}: File exists.\n"
    )


def test_home_of_the_data_is_the_users(tmp_path, monkeypatch, stopped):
    monkeypatch.setenv("HOME", str(tmp_path))
    seen = []

    def scenario(federation, *_):
        seen.append(federation.nodes[0].config["data-dir"])
        return 0

    deploy(tmp_path, monkeypatch, scenario, data_dir=Path("~/mine"))
    assert seen == [str(tmp_path / "mine")]


def test_a_quote_is_refused_before_anything_starts(tmp_path, monkeypatch, stopped):
    with pytest.raises(ConfigError, match=r"data-dir is .*, but must be without double quotes"):
        deploy(tmp_path, monkeypatch, lambda *_: 0, data_dir=tmp_path / 'a"b')
    assert stopped == []


def test_follows_from_where_this_run_begins(tmp_path):
    log = tmp_path / "run-1.log"
    log.write_text("Round 1: of the run before\n")
    command = [sys.executable, "-c", "print('Round 2: of this one')"]
    run = Process("run", command, log=log, environment=dict(os.environ))
    run.start()
    shown = io.StringIO()
    local._follow(run, partial(print, file=shown))
    assert shown.getvalue() == "Round 2: of this one\n"
