import errno
import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Timer

import pytest

from simulations.config import ConfigError, RunConfig
from simulations.runs import directory
from simulations.runs.directory import RunDirectory


def test_config_is_enough_to_repeat_the_run(tmp_path):
    config = RunConfig(seed=7, run_dir=str(tmp_path / "run"))
    run = RunDirectory.open(config)
    assert run.config() == replace(config, run_dir="")


def test_a_run_without_a_directory_gets_a_new_one(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    run = RunDirectory.open(RunConfig())
    assert run.path.parent == tmp_path / ".fedau" / "runs"


def test_reports_of_rounds_that_run_again_are_dropped(tmp_path):
    run = RunDirectory(tmp_path)
    for number in (5, 10, 15):
        run.report({"round": number})
    with run.metrics_file.open("a") as file:
        file.write('{"round": 20, "train')
    run.forget_reports_after(10)
    assert [entry["round"] for entry in run.metrics()] == [5, 10]


def test_an_unreadable_config_is_named(tmp_path):
    (tmp_path / "config.toml").write_text("method = ")
    with pytest.raises(ConfigError, match=r"config\.toml cannot be read"):
        RunDirectory(Path(tmp_path)).config()


def test_a_directory_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    path = str(tmp_path / "file" / "run")
    with pytest.raises(ConfigError) as refused:
        RunDirectory.open(RunConfig(run_dir=path))
    assert str(refused.value) == (
        f"run-dir is {path!r}, but must be a directory that can be written to (Not a directory)."
    )


def test_a_file_system_that_is_read_only_is_named(tmp_path, monkeypatch):
    def refuse(path, *_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(ConfigError, match=r"run-dir is '.*/\.fedau/runs/.*Read-only file system"):
        RunDirectory.open(RunConfig())


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(directory, "END_SECONDS", 0.0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("resume", [False, True])
def test_a_run_that_goes_on_is_not_run_again(tmp_path, resume):
    config = RunConfig(run_dir=str(tmp_path))
    run = RunDirectory.open(config)
    run.checkpoint_file.touch()
    with run.held(), pytest.raises(ConfigError) as refused:
        RunDirectory(tmp_path).check(replace(config, resume=resume))
    assert str(refused.value) == (
        f"run-dir is {str(tmp_path)!r}, but must not hold a run that is going on: stop it, or wait."
    )
    run.check(replace(config, resume=True))


def test_a_run_whose_outcome_is_known_may_still_take_a_moment_to_end(tmp_path):
    run = RunDirectory.open(RunConfig(run_dir=str(tmp_path)))
    with ExitStack() as other:
        other.enter_context(run.held())
        ending = Timer(0.1, other.close)
        ending.start()
        with run.held():
            ending.join()


@pytest.mark.parametrize("reason", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_where_files_cannot_be_locked_runs_are_not_held(tmp_path, monkeypatch, reason):
    def refuse(*_):
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr(directory.fcntl, "flock", refuse)
    run = RunDirectory.open(RunConfig(run_dir=str(tmp_path)))
    with run.held(), run.held():
        assert run.log_file.exists()


def test_a_log_that_cannot_be_written_is_named(tmp_path):
    run = RunDirectory.open(RunConfig(run_dir=str(tmp_path)))
    run.log_file.mkdir()
    with pytest.raises(ConfigError, match=r"can be written to \(Is a directory\)"):
        run.check_free()
