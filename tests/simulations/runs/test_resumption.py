from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from simulations.config import ConfigError, RunConfig
from simulations.launch.runner import Resources
from simulations.runs import directory, resumption
from simulations.runs.resumption import Step, run_missing
from tests.simulations.report.made_runs import made_from


@pytest.fixture
def config(tmp_path) -> RunConfig:
    return RunConfig(run_dir=str(tmp_path / "run"), num_server_rounds=20)


def test_what_is_not_there_is_run(config):
    step = Step.of(config)
    assert step.action == "run"
    assert step.prepared() == config
    assert str(step).split()[0] == "run"


@pytest.mark.parametrize(("status", "until"), [("finished", 20), ("diverged", 8)])
def test_what_has_ended_is_done(config, status, until):
    made_from(config, status=status, until=until)
    assert Step.of(config) == Step(config, "done", until)


@pytest.mark.parametrize("status", ["running", "stopped", "failed"])
def test_what_was_broken_off_is_resumed(config, status):
    run = made_from(config, status=status, until=8)
    run.checkpoint_file.touch()
    step = Step.of(config)
    assert (step.action, step.reached) == ("resume", 8)
    assert step.prepared() == replace(config, resume=True)
    assert str(step).endswith("run  round 8 of 20")


def test_a_finished_run_can_get_more_rounds(config):
    made_from(config).checkpoint_file.touch()
    assert Step.of(replace(config, num_server_rounds=30)).action == "resume"


def test_a_run_without_a_checkpoint_starts_again(config):
    run = made_from(config, status="failed", until=1)
    run.metrics_file.unlink()
    step = Step.of(config)
    assert step.action == "run again"
    assert run.config_file.exists()
    assert step.prepared() == config
    assert not run.config_file.exists()


def test_a_run_that_is_about_to_begin_elsewhere_stays_as_it_is(config, monkeypatch):
    monkeypatch.setattr(directory, "END_SECONDS", 0.0)
    run = made_from(config, status="failed", until=1)
    with run.held(), pytest.raises(ConfigError, match="must not hold a run that is going on"):
        Step.of(config).prepared()
    assert run.config_file.exists()


def test_fewer_rounds_than_done_or_other_settings_are_errors(config):
    made_from(config)
    with pytest.raises(ConfigError, match="rounds is 10, but must be at least 20, which "):
        Step.of(replace(config, num_server_rounds=10))
    with pytest.raises(ConfigError, match=r"run is a run of other settings: clients is 9, but"):
        Step.of(replace(config, clients=9))


def test_only_what_is_missing_runs(config, tmp_path, monkeypatch):
    made_from(config)
    other = replace(config, run_dir=str(tmp_path / "other"))
    calls = []

    def run_all(configs, resources, console, *, where):
        calls.append(configs)
        return [{"status": "finished"}]

    monkeypatch.setattr(resumption, "run_all", run_all)
    console = Console(quiet=True)
    outcomes = run_missing([config, other], Resources(), console, where=Path(tmp_path))
    assert calls == [[other]]
    assert outcomes == [{"status": "finished"}]
    assert run_missing([config], Resources(), console, where=Path(tmp_path)) == []
    assert len(calls) == 1
