import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from simulations.config import ConfigError, RunConfig
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
