"""How a SuperLink is started and told about runs; test_simulator and tests/deployment use it."""

import socket
import tomllib

import pytest

from fedau_flwr.server.loop import RunFailure
from simulations.config import ConfigError
from simulations.launch.process import free_port
from simulations.launch.superlink import SuperLink, config_argument


def test_a_port_that_is_taken_is_said(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port is {port}, but must be free"):
            SuperLink(tmp_path, port=port)
    with pytest.raises(ConfigError, match="port is 70000, but must be in 0 to 65535"):
        SuperLink(tmp_path, port=70_000)
    assert 0 < free_port() < 65536


def test_a_superlink_that_does_not_come_up_is_said(tmp_path):
    link = SuperLink(tmp_path)
    link.command = ["sh", "-c", "echo ValueError: no; exit 1"]
    with pytest.raises(RunFailure, match=rf"come up on port {link.port}: ValueError: no$"):
        link.start()


def test_the_engine_is_tuned_unless_the_user_does(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_enable_metrics_collection", "1")
    monkeypatch.delenv("RAY_prestart_worker_first_driver", raising=False)
    environment = SuperLink(tmp_path, simulation=True).environment
    assert environment["RAY_enable_metrics_collection"] == "1"
    assert environment["RAY_prestart_worker_first_driver"] == "0"
    assert "RAY_prestart_worker_first_driver" not in SuperLink(tmp_path).environment


def test_modes_are_flags(tmp_path):
    def flags(link):
        return {word for word in link.command if word.startswith("--")}

    simulation = SuperLink(tmp_path, simulation=True)
    assert {"--simulation", "--insecure", "--isolation"} <= flags(simulation)
    assert "--database" not in flags(simulation)
    assert simulation.environment["RAY_TMPDIR"] == str(tmp_path)
    deployment = SuperLink(tmp_path)
    assert {"--database", "--insecure"} <= flags(deployment)
    assert not {"--simulation", "--isolation"} & flags(deployment)
    secure = SuperLink(tmp_path, secrets=tmp_path)
    assert {"--enable-supernode-auth", "--ssl-keyfile"} <= flags(secure)
    assert "--insecure" not in flags(secure)


def test_a_run_gets_any_settings(tmp_path):
    """Quotes and line breaks too, which an option on the command line could not hold."""
    link = SuperLink(tmp_path)
    link.home.mkdir()
    config = {"text": 'a "b"\nc', "number": 1e-5, "flag": False}
    run = link.run_app(tmp_path, config, log=tmp_path / "log", engine={"num-supernodes": 3})
    run.stop()  # it waits for the SuperLink, which was not started
    words = run.command
    assert words[-2:] == ["--federation-config", "num-supernodes=3"]
    assert tomllib.loads(link.home.joinpath("run-1.toml").read_text()) == config
    assert str(link.home / "run-1.toml") in words


def test_settings_on_a_command_line():
    values = {"a": "x\\y", "b": 1, "c": 0.5, "d": True}
    assert config_argument(values) == 'a="x\\\\y" b=1 c=0.5 d=true'
    for text in ('a"b', "a\nb"):
        with pytest.raises(ConfigError, match="must be without double quotes and line breaks"):
            config_argument({"key": text})
