"""The command lines of the compose files as processes: what the containers would run, run here."""

import os
import shutil
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from fedau_flwr import _flower
from simulations.launch.federation import Federation
from simulations.launch.process import Process, flower_environment, free_port, stop_together
from tests.deployment.app.quadratics import problem
from tests.deployment.conftest import APP
from tests.docker.compose import DOCKER, VARIABLES, load_stack
from tests.docker.test_compose import PARSERS

pytestmark = pytest.mark.deployment

PROGRAMS = dict(
    zip(PARSERS, ["flower-superlink", "flower-supernode", "flower-superexec"], strict=True)
)


class Containers:
    """The services of both sides, with the addresses and paths of this machine put in."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.federation = Federation(directory, nodes=1, environment=environment)
        self.directory = directory
        self.supernode_port = free_port()
        server = load_stack(("server.yml",))["services"]
        allowed = sha256(_flower.build_fab_from_disk(APP)).hexdigest()
        variables = {**VARIABLES, "NODE_CONFIG": f'fedau-allow-apps="{allowed}"'}
        client = load_stack(("client.yml", "client.tls.yml"), variables)["services"]
        self.services = {
            "superlink": server["superlink"],
            "serverapp": server["serverapp"],
            "supernode": client["supernode"],
            "clientapp": client["clientapp"],
        }
        self.processes = {
            name: Process(
                name,
                [PROGRAMS[service["image"].split(":")[0]], *self.local(name, service["command"])],
                log=directory / f"{name}.log",
                environment=flower_environment(directory / f"{name}-home", environment),
            )
            for name, service in self.services.items()
        }
        # As in the image, where a link to our program comes first.
        guard = directory / "bin" / "flwr-clientapp"
        guard.parent.mkdir()
        program = "from fedau_flwr.client.guard import main; main()"
        guard.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}" "$@"\n')
        guard.chmod(0o755)
        own = self.processes["clientapp"].environment
        own["PATH"] = os.pathsep.join([str(guard.parent), own["PATH"]])
        # Secrets, connection and keys are made as usual, around the command of the file.
        self.federation.superlink.command = self.processes["superlink"].command
        self.processes["superlink"] = self.federation.superlink

    def local(self, name: str, arguments: list[str]) -> list[str]:
        secrets = self.federation.secrets
        replacements = {
            "superlink:8000": self.federation.superlink.address,
            "127.0.0.1:8000": self.federation.superlink.address,
            "supernode:9094": f"127.0.0.1:{self.supernode_port}",
            "127.0.0.1:9094": f"127.0.0.1:{self.supernode_port}",
            "--port=8000": f"--port={self.federation.superlink.port}",
            "--port=9094": f"--port={self.supernode_port}",
            "0.0.0.0": "127.0.0.1",
            '"/state"': f'"{self.directory / "state"}"',
            "/app/superlink.db": str(self.directory / "superlink.db"),
            "/run/secrets/inside-": f"{secrets}/",
            "/run/secrets/node.key": str(secrets / "node-0.key"),
            "/run/secrets/": f"{secrets}/",
            "/opt/healthcheck.py": str(DOCKER / "healthcheck.py"),
        }
        for theirs, ours in replacements.items():
            arguments = [argument.replace(theirs, ours) for argument in arguments]
        return arguments

    def healthcheck(self, name: str) -> int:
        """Run a service's health check and return its exit status."""
        program, *arguments = self.local(name, self.services[name]["healthcheck"]["test"][1:])
        assert program == "python"
        check = Process(
            f"health check of {name}",
            [sys.executable, *arguments],
            log=self.directory / f"{name}-health.log",
            environment=self.processes[name].environment,
        )
        check.start()
        return check.wait(timeout=120.0)


@pytest.fixture(scope="module")
def containers(
    tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]
) -> Iterator[Containers]:
    containers = Containers(tmp_path_factory.mktemp("containers"), environment)
    try:
        containers.federation.start_superlink()
        for name in ("serverapp", "supernode", "clientapp"):
            containers.processes[name].start()
        containers.processes["supernode"].wait_for("SuperNode ID: ", timeout=300.0)
        yield containers
    finally:
        stop_together(list(containers.processes.values()))
        containers.federation.stop()


def test_a_run_goes_through(containers: Containers) -> None:
    run = containers.federation.run(
        APP,
        config={
            "num-server-rounds": 1,
            "num-clients": 1,
            "wait-for": 1,
            "directory": str(containers.directory),
        },
    )
    assert run.wait_finished(timeout=300.0) == "finished:completed"
    expected = problem.train(problem.initial_model(), 0, step_size=0.1, steps=3)
    np.testing.assert_array_equal(np.load(containers.directory / "model.npy"), expected)


def test_an_app_that_the_owner_does_not_allow_does_not_run(
    containers: Containers, tmp_path: Path
) -> None:
    changed = shutil.copytree(APP, tmp_path / "app")
    with (changed / "quadratics" / "client_app.py").open("a") as file:
        file.write(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    rounds = {"num-server-rounds": 1, "num-clients": 1, "wait-for": 1}
    run = containers.federation.run(changed, config={**rounds, "directory": str(tmp_path)})
    assert run.wait_finished(timeout=300.0) == "finished:completed"
    assert not (tmp_path / "ran").exists()
    np.testing.assert_array_equal(np.load(tmp_path / "model.npy"), problem.initial_model())
    assert "allows 1 apps, but not the one that runs here" in (
        containers.processes["clientapp"].output()
    )


def test_health_checks_tell_up_from_down(containers: Containers) -> None:
    assert {name: containers.healthcheck(name) for name in containers.services} == dict.fromkeys(
        containers.services, 0
    )
    containers.processes["clientapp"].stop()
    assert containers.healthcheck("clientapp") == 1


def test_superexec_without_the_secret_gets_no_work(containers: Containers) -> None:
    command = [
        argument
        for argument in containers.processes["serverapp"].command
        if not argument.startswith("--superexec-auth-secret-file")
    ]
    intruder = Process(
        "intruder",
        command,
        log=containers.directory / "intruder.log",
        environment=containers.processes["serverapp"].environment,
    )
    intruder.start()
    try:
        intruder.wait(timeout=120.0)  # turned away, it ends by itself
    finally:
        intruder.stop()
    refused = '"POST /v1/runtime/acquire-task HTTP/1.1" 401'
    assert refused in containers.processes["superlink"].output()
