"""What the commands for deployments hand on, and what they refuse; tests/deployment runs them."""

import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from simulations.cli import app as cli
from simulations.cli import deploy as command
from simulations.config import RunConfig
from simulations.launch.simulator import CLONE
from simulations.runs.directory import RunDirectory


@pytest.fixture
def deployed(monkeypatch):
    """Return what the federations would have been started with."""
    calls = []

    def deploy_local(app, directory, **options):
        calls.append({"app": app, "directory": directory, **options})
        return 0

    monkeypatch.setattr(command, "deploy_local", deploy_local)
    return calls


@pytest.fixture
def fedau(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    app = typer.Typer()
    cli.register(app)

    def call(*arguments):
        return CliRunner().invoke(app, arguments, env={"COLUMNS": "160", "TERM": "dumb"})

    return call


def real_run(path: Path, **changes) -> None:
    config = RunConfig(pattern="deployment", clients=4, run_dir=str(path), **changes)
    RunDirectory.open(config).checkpoint_file.touch()


def test_own_app_learns_how_many_clients_there_are(fedau, deployed, tmp_path):
    assert fedau("deploy", "local", "--nodes", "3", "--directory", "fed").exit_code == 0
    (call,) = deployed
    assert (call["app"], call["nodes"], call["tls"], call["keep"]) == (CLONE, 3, True, False)
    assert call["run_config"] == {
        "clients": 3,
        "run-dir": str(tmp_path / "fed" / "run"),
        "data-dir": str(tmp_path / "fed" / "data"),
    }


def test_overrides_have_the_last_word(fedau, deployed):
    fedau("deploy", "local", "-c", 'clients=9 method="mifa"')
    assert deployed[0]["run_config"] | {"run-dir": "", "data-dir": ""} == {
        "clients": 9,
        "method": "mifa",
        "run-dir": "",
        "data-dir": "",
    }


def test_other_apps_are_given_what_the_user_says(fedau, deployed, tmp_path):
    fedau("deploy", "local", "--app", str(tmp_path), "--no-tls", "--keep", "-c", "a=1")
    (call,) = deployed
    assert (call["app"], call["tls"], call["keep"]) == (tmp_path, False, True)
    assert call["run_config"] == {"a": 1}


def test_resume_of_a_local_federation_starts_it_again(fedau, deployed, tmp_path):
    place = tmp_path / "fed"
    for node in range(4):
        (place / f"node-{node}").mkdir(parents=True)
    (place / "superlink.db").touch()
    (place / "secrets").mkdir()
    real_run(place / "run", lr=0.5)
    result = fedau("resume", str(place / "run"), "--rounds", "30")
    assert result.exit_code == 0, result.output
    (call,) = deployed
    assert (call["nodes"], call["tls"], call["directory"]) == (4, True, place)
    assert call["run_config"] == {
        "pattern": "deployment",
        "clients": 4,
        "lr": 0.5,
        "num-server-rounds": 30,
        "run-dir": str(place / "run"),
        "resume": True,
    }


def test_resume_on_a_named_federation(fedau, deployed, monkeypatch, tmp_path):
    commands = []
    monkeypatch.setattr(command.subprocess, "call", lambda line: commands.append(line) or 0)
    real_run(tmp_path / "run")
    assert fedau("resume", str(tmp_path / "run"), "--federation", "ours").exit_code == 0
    assert commands == [
        [
            # Beside this Python, also where its environment is not activated.
            str(Path(sys.executable).parent / "flwr"),
            *("run", str(CLONE), "ours", "--stream", "--run-config"),
            f'pattern="deployment" clients=4 run-dir="{tmp_path / "run"}" resume=true',
        ]
    ]
    assert deployed == []


def test_resume_needs_to_know_where(fedau, tmp_path):
    real_run(tmp_path / "elsewhere")
    result = fedau("resume", str(tmp_path / "elsewhere"))
    assert result.exit_code == 2
    assert "name that with --federation" in result.output


@pytest.mark.parametrize("text", ["clients", "clients=", "=3", "a=1 b", "a='x", "a=x"])
def test_bad_overrides_are_a_sentence(fedau, deployed, text):
    result = fedau("deploy", "local", "-c", text)
    assert result.exit_code == 2
    assert f"run-config is {text!r}, but must be like" in result.output
    assert deployed == []


def test_own_settings_are_checked_before_anything_starts(fedau, deployed):
    result = fedau("deploy", "local", "-c", "method='fedau:-1'")
    assert result.exit_code == 2
    assert "cutoff of method fedau is -1, but must be 0 or more." in result.output
    assert deployed == []


def test_a_directory_that_is_a_file_is_a_sentence(fedau, deployed, tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        result = fedau("deploy", "local", "--directory", str(path))
        assert result.exit_code == 2
        assert f"directory is {str(path)!r}, but must be a directory that can be" in result.output
    assert deployed == []


@pytest.mark.parametrize("option", ["directory", "data-dir"])
def test_a_quote_in_a_path_is_a_sentence(fedau, deployed, tmp_path, option):
    result = fedau("deploy", "local", f"--{option}", str(tmp_path / 'a"b'))
    assert result.exit_code == 2
    assert f"{option} is " in result.output
    assert "but must be without double quotes and line breaks." in result.output
    assert deployed == []
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fails_is_a_sentence(fedau, monkeypatch):
    def deploy_local(*_, **__):
        raise OSError(28, "No space left on device", "/somewhere")

    monkeypatch.setattr(command, "deploy_local", deploy_local)
    result = fedau("deploy", "local")
    assert (result.exit_code, result.output) == (1, "/somewhere: No space left on device.\n")


def test_a_simulation_has_no_real_participation(fedau):
    result = fedau("run", "--pattern", "deployment")
    assert result.exit_code == 2
    assert "pattern is 'deployment', but must be another one in a simulation" in result.output
