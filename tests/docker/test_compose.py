"""Every compose file: structure, safety, and each command line against Flower's own parser."""

import argparse
import json
import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from flwr.app import Array
from flwr.common.config import parse_config_args
from flwr.common.constant import FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE
from flwr.proto.message_pb2 import PushObjectRequest
from flwr.proto.node_pb2 import Node
from packaging.requirements import Requirement
from packaging.version import Version

from simulations.config import RUNS
from tests.docker.compose import DOCKER, STACKS, VARIABLES, load_stack
from tests.docker.schema import mistakes

PARSERS = {
    "flwr/superlink": ("flwr.superlink.cli.flower_superlink", "_parse_args_run_superlink"),
    "flwr/supernode": ("flwr.supernode.cli.flower_supernode", "_parse_args_run_supernode"),
    "fedau-flwr": ("flwr.supercore.cli.flower_superexec", "_parse_args"),
}
"""By image; they take long to import, which who only collects these tests need not do."""
HOME = "/app"
"""Of the user that Flower's images run as."""

USERS = {"prometheus": "65534:65534", "grafana": "472:0"}
"""Of images that are not ours, the users that their folders belong to."""

CLIENTS = [files for files in STACKS if files[0] == "client.yml"]
FILES = sorted({name for files in STACKS for name in files})
SERVICES = [
    pytest.param(files, service, id=f"{'+'.join(files)}:{service}")
    for files in STACKS
    for service in load_stack(files)["services"]
]


def changeable(files: tuple[str, ...]) -> dict[str, Any]:
    """Return a project without the parts that YAML lets several services share."""
    project: dict[str, Any] = json.loads(json.dumps(load_stack(files)))
    return project


def flower_services(files: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    services = load_stack(files)["services"]
    return {
        name: service
        for name, service in services.items()
        if service.get("image", "").split(":")[0] in PARSERS
    }


CHOSEN = [("environment",), ("args",), ("depends_on",)]
"""Keys of a service below which names are ours."""


def keys(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the path of every key that the specification has, and we did not choose."""
    items = enumerate(value) if isinstance(value, list) else value.items()
    for key, inner in items:
        chosen = len(path) == 1 or path[-1:] in CHOSEN
        extension = not path and str(key).startswith("x-")
        if isinstance(value, dict) and not chosen and not extension:
            yield (*path, key)
        if isinstance(inner, dict | list):
            yield from keys(inner, (*path, key))


def parser_of(service: dict[str, Any]) -> argparse.ArgumentParser:
    # The packages export functions under the names of these modules, hence no plain import.
    module, name = PARSERS[service["image"].split(":")[0]]
    parser: argparse.ArgumentParser = getattr(import_module(module), name)()
    return parser


def parse(service: dict[str, Any]) -> argparse.Namespace:
    """Parse a service's command as its program would; a wrong flag ends in SystemExit."""
    parser = parser_of(service)
    parser.allow_abbrev = False
    return parser.parse_args(service["command"])


def test_every_file_belongs_to_a_stack() -> None:
    assert {path.name for path in DOCKER.glob("*.yml")} == {
        name for files in STACKS for name in files
    }


@pytest.mark.parametrize("files", STACKS, ids="+".join)
def test_command_lines_are_accepted(files: tuple[str, ...]) -> None:
    services = flower_services(files)
    assert len(services) == 2
    for service in services.values():
        parse(service)


def test_a_flag_that_does_not_exist_fails() -> None:
    service = dict(flower_services(("server.yml",))["superlink"])
    service["command"] = [*service["command"], "--no-such-flag"]
    with pytest.raises(SystemExit):
        parse(service)


@pytest.mark.parametrize("files", STACKS, ids="+".join)
def test_no_flag_is_deprecated(files: tuple[str, ...]) -> None:
    for service in flower_services(files).values():
        parser = parser_of(service)
        options = {option: action for action in parser._actions for option in action.option_strings}
        for argument in service["command"]:
            flag = argument.split("=")[0]
            if flag.startswith("--"):
                text = options[flag].help or ""
                assert text != argparse.SUPPRESS
                assert "deprecated" not in text.lower()


@pytest.mark.parametrize("files", [(name,) for name in FILES] + STACKS, ids="+".join)
def test_structure_is_that_of_the_specification(files: tuple[str, ...]) -> None:
    """Of each file by itself, and of what they make together."""
    assert mistakes(load_stack(files)) == []


@pytest.mark.parametrize("name", FILES)
def test_a_misspelt_key_fails(name: str) -> None:
    """Any key at any depth but the names, which are ours to choose."""
    found = 0
    original = json.dumps(load_stack((name,)))
    for path in keys(json.loads(original)):
        project = place = json.loads(original)
        for step in path[:-1]:
            place = place[step]
        place[f"{path[-1]}s"] = place.pop(path[-1])
        assert mistakes(project), f"{path} may be misspelt"
        found += 1
    assert found > 0


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("read_only",), "yes"),
        (("command",), "--host=0.0.0.0"),
        (("restart",), "sometimes"),
        (("healthcheck", "interval"), 30),
        (("healthcheck", "test"), ["python", "/opt/healthcheck.py"]),
        (("tmpfs",), ["/tmp", "/app/.flwr:"]),
        (("volumes",), ["results"]),
        (("ports",), [8000]),
        (("environment", "FLWR_TELEMETRY_ENABLED"), 0),
        (("depends_on",), {"superlink": {"condition": "healthy"}}),
    ],
    ids=lambda item: ".".join(item) if isinstance(item, tuple) else "",
)
def test_a_value_of_the_wrong_kind_fails(path: tuple[str, ...], value: Any) -> None:
    project = changeable(("server.yml",))
    place = project["services"]["serverapp"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    (mistake,) = mistakes(project)
    assert mistake.startswith(f"$.services.serverapp.{'.'.join(path)}")


@pytest.mark.parametrize("way", ["docker compose", "docker-compose"])
@pytest.mark.parametrize("files", STACKS, ids="+".join)
def test_docker_compose_reads_it_as_we_do(files: tuple[str, ...], way: str, tmp_path: Path) -> None:
    """The plugin and the older program, whichever there is: its answer must equal our reading."""
    program = way.split()
    if not shutil.which(program[0]):
        pytest.skip(f"did not run: there is no {program[0]} on this machine")
    if subprocess.run([*program, "version"], capture_output=True, check=False).returncode:
        pytest.skip(f"did not run: `{way}` does not work on this machine")
    check_reading(program, files, load_stack(files), tmp_path)


def check_reading(
    program: list[str], files: tuple[str, ...], project: dict[str, Any], tmp_path: Path
) -> None:
    arguments = [argument for name in files for argument in ("-f", str(DOCKER / name))]
    environment = {**os.environ, **VARIABLES, "SECRETS": str(tmp_path)}
    # Ray leaves our modules on the path of every program that these tests start after it.
    environment.pop("PYTHONPATH", None)
    answer = subprocess.run(
        [*program, "-p", "test", *arguments, "config"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    theirs = yaml.safe_load(answer.stdout)["services"]
    for name, service in project["services"].items():
        assert theirs[name].get("command") == service.get("command")
        assert theirs[name]["healthcheck"]["test"] == service["healthcheck"]["test"]
        assert sorted(theirs[name]["networks"]) == sorted(service["networks"])
        assert sorted(secret["source"] for secret in theirs[name].get("secrets", [])) == sorted(
            service.get("secrets", [])
        )


@pytest.mark.parametrize("change", [None, "command", "healthcheck", "networks", "secrets"])
def test_another_reading_is_noticed(change: str | None, tmp_path: Path) -> None:
    """A program that answers as Docker Compose does, and one that read something else."""
    files = ("server.yml",)
    services = changeable(files)["services"]
    for service in services.values():
        service["secrets"] = [{"source": name} for name in service["secrets"]]
    if change == "healthcheck":
        services["superlink"]["healthcheck"]["test"] = ["CMD", "true"]
    elif change is not None:
        services["superlink"][change] = []
    program = tmp_path / "compose"
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/answer.yml\n")
    program.chmod(0o755)
    (tmp_path / "answer.yml").write_text(yaml.safe_dump({"services": services}))
    with nullcontext() if change is None else pytest.raises(AssertionError):
        check_reading([str(program)], files, load_stack(files), tmp_path)


@pytest.mark.parametrize(("files", "name"), SERVICES)
def test_service_is_confined_and_looked_after(files: tuple[str, ...], name: str) -> None:
    service = load_stack(files)["services"][name]
    assert service["user"] == USERS.get(name, "49999:49999")
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == "unless-stopped"
    assert service["mem_limit"]
    assert 0 < service["pids_limit"] <= 1024
    assert service["healthcheck"]["test"][0] == "CMD"
    assert not any("key" in key.lower() for key in service.get("environment", {}))


@pytest.mark.parametrize(("files", "name"), SERVICES)
def test_references_are_defined(files: tuple[str, ...], name: str) -> None:
    project = load_stack(files)
    service = project["services"][name]
    assert set(service.get("secrets", [])) <= project["secrets"].keys()
    assert set(service["networks"]) <= project["networks"].keys()
    for volume in service["volumes"]:
        source = volume.split(":")[0]
        if source.startswith("./"):
            assert (DOCKER / source).is_file()
        elif not source.startswith("/"):
            assert source in project["volumes"]
    used = " ".join([*service.get("command", []), *service["healthcheck"]["test"]])
    for word in used.replace("=", " ").split():
        if word.startswith("/run/secrets/"):
            assert word.removeprefix("/run/secrets/") in service.get("secrets", [])
        if word.startswith("/opt/"):
            assert any(f":{word}:ro" in volume for volume in service["volumes"])


def test_authentication_and_tls_are_on() -> None:
    server = parse(flower_services(("server.yml",))["superlink"])
    assert server.enable_supernode_auth
    assert not server.insecure
    assert server.isolation == "process"
    assert server.superexec_auth_secret_file
    for files in CLIENTS:
        node = parse(flower_services(files)["supernode"])
        assert not node.insecure
        assert node.root_certificates
        assert node.auth_supernode_private_key
        assert node.isolation == "process"
        assert node.superexec_auth_secret_file


def test_tls_overlay_leaves_no_plain_connection() -> None:
    services = flower_services(("client.yml", "client.tls.yml"))
    assert parse(services["supernode"]).ssl_certfile
    assert not parse(services["clientapp"]).insecure


def test_control_api_is_not_published() -> None:
    services = load_stack(("server.yml",))["services"]
    assert services["superlink"]["ports"] == ["127.0.0.1:8000:8000"]
    assert services["gateway"]["ports"] == ["9092:8443"]
    forwarded = [
        line.split()[1]
        for line, following in zip(
            *[(DOCKER / "gateway.conf").read_text().splitlines()[shift:] for shift in (0, 1)],
            strict=False,
        )
        if "location" in line and "proxy_pass" in following
    ]
    assert forwarded == ["/v1/fleet/"]


def test_gateway_looks_the_superlink_up_again() -> None:
    """nginx asks for a name that is written out once, at its start."""
    text = (DOCKER / "gateway.conf").read_text()
    public = text[text.index("listen 8443") : text.index("location")]
    assert re.search(r"^    resolver 127\.0\.0\.11 valid=10s;$", public, re.MULTILINE)
    (variable, target) = re.findall(r"^    set (\$\w+) (\S+);$", public, re.MULTILINE)[0]
    # Without a path: one would take the place of the request's.
    assert target == "https://superlink:8000"
    assert re.findall(r"proxy_pass (\S+);", text) == [variable]
    # The certificate is checked for the name, as before.
    assert "proxy_ssl_name superlink;" in text
    assert "proxy_ssl_verify on;" in text


def test_gateway_takes_what_a_chunk_needs_and_no_more() -> None:
    """The largest request that a SuperNode makes: a piece of an array, as Flower cuts them."""
    (kilobytes,) = re.findall(
        r"client_max_body_size (\d+)k;", (DOCKER / "gateway.conf").read_text()
    )
    array = Array(np.zeros(3 * FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE, np.uint8))
    largest = max(len(chunk.deflate()) for chunk in array.children.values())
    assert largest > FLWR_PRIVATE_MAX_ARRAY_CHUNK_SIZE == 5 * 2**20
    request = PushObjectRequest(
        node=Node(node_id=2**64 - 1),
        run_id=2**64 - 1,
        object_id="f" * 64,
        object_content=bytes(largest),
    )
    assert request.ByteSize() < int(kilobytes) * 1024 < 1.02 * 5 * 2**20


def test_no_supernode_is_on_the_network_of_the_control_api() -> None:
    server = load_stack(("server.yml",))
    assert server["services"]["superlink"]["networks"] == ["federation"]
    assert server["services"]["serverapp"]["networks"] == ["federation"]
    assert server["services"]["gateway"]["networks"] == ["federation", "clients"]
    local = load_stack(("client.yml", "client.local.yml"))
    assert local["services"]["supernode"]["networks"] == ["inside", "outside", "clients"]
    assert local["networks"]["clients"]["name"] == server["networks"]["clients"]["name"]
    assert "name" not in (server["networks"]["federation"] or {})
    text = (DOCKER / "README.md").read_text()
    assert "SUPERLINK=gateway:8443" in text
    assert "SUPERLINK=superlink" not in text


def test_images_can_be_pinned_by_digest() -> None:
    digest = f"@sha256:{64 * '0'}"
    images = (
        "SUPERLINK",
        "SUPERNODE",
        "NGINX",
        "SUPEREXEC",
        "NODE_EXPORTER",
        "PROMETHEUS",
        "GRAFANA",
    )
    variables = {**VARIABLES, **{f"{image}_DIGEST": digest for image in images}}
    for files in STACKS:
        for service in load_stack(files, variables)["services"].values():
            built = service.get("build", {}).get("args", {}).get("SUPEREXEC_DIGEST", "")
            assert (service["image"] + built).endswith(digest)
    assert (
        "FROM flwr/superexec:${FLWR_VERSION}${SUPEREXEC_DIGEST} AS"
        in (DOCKER / "Dockerfile").read_text()
    )


def test_client_apps_are_started_by_the_guard() -> None:
    scripts = tomllib.loads((DOCKER.parent / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["fedau-clientapp"] == "fedau_flwr.client.guard:main"
    lines = (DOCKER / "Dockerfile").read_text().splitlines()
    assert 'RUN ln -s "$(command -v fedau-clientapp)" /opt/fedau/flwr-clientapp' in lines
    assert "ENV PATH=/opt/fedau:$PATH" in lines


def test_state_survives_containers() -> None:
    server = load_stack(("server.yml",))
    database = parse(server["services"]["superlink"]).database
    assert any(
        volume.startswith("superlink:") and database.startswith(f"{volume.split(':')[1]}/")
        for volume in server["services"]["superlink"]["volumes"]
    )
    client = load_stack(("client.yml",))["services"]
    config = parse_config_args([parse(client["supernode"]).node_config])
    assert config == {
        "partition-id": 0,
        "num-partitions": 1,
        "data-dir": "/data",
        "fedau-state-dir": "/state",
    }
    assert "state:/state" in client["clientapp"]["volumes"]
    assert "/srv/data:/data:ro" in client["clientapp"]["volumes"]


def test_run_without_a_directory_finds_one_that_survives() -> None:
    volumes = load_stack(("server.yml",))["services"]["serverapp"]["volumes"]
    default = str(RUNS).replace("~", HOME)
    assert {f"results:{default}", "results:/results"} <= set(volumes)
    # A new volume has the owner of the folder that the image has in its place.
    text = (DOCKER / "Dockerfile").read_text().replace("\\\n", "")
    (line,) = [line for line in text.splitlines() if "--owner=app" in line]
    assert {default, "/results", "/state", "--mode=0700"} <= set(line.split())


def test_group_goes_into_the_node_config() -> None:
    variables = {**VARIABLES, "NODE_CONFIG": 'fedau-group="phones"'}
    service = load_stack(("client.yml",), variables)["services"]["supernode"]
    assert parse_config_args([parse(service).node_config])["fedau-group"] == "phones"


def test_client_code_reaches_its_supernode_only() -> None:
    for files in CLIENTS:
        project = load_stack(files)
        assert project["services"]["clientapp"]["networks"] == ["inside"]
        assert project["networks"]["inside"] == {"internal": True}
        assert "node.key" not in project["services"]["clientapp"]["secrets"]


def test_image_has_the_versions_of_the_project() -> None:
    project = tomllib.loads((DOCKER.parent / "pyproject.toml").read_text())["project"]
    wanted = [
        requirement
        for requirement in project["optional-dependencies"]["simulations"]
        if requirement.startswith("torch")
    ]
    dockerfile = (DOCKER / "Dockerfile").read_text()
    assert len(wanted) == 2
    for requirement in wanted:
        assert dockerfile.count(json.dumps(requirement)) == 2


def admitted(tag: str, installed: str) -> bool:
    """Return whether an image of Flower is one that we support, and that these tests know."""
    project = tomllib.loads((DOCKER.parent / "pyproject.toml").read_text())["project"]
    (flower,) = [
        requirement
        for requirement in map(Requirement, project["dependencies"])
        if requirement.name == "flwr"
    ]
    return tag in flower.specifier and Version(tag) <= Version(installed)


def test_images_are_of_a_flower_that_was_tested() -> None:
    (built,) = re.findall(r"^ARG FLWR_VERSION=(\S+)$", (DOCKER / "Dockerfile").read_text(), re.M)
    images = {service["image"] for files in STACKS for service in flower_services(files).values()}
    tags = {image.split(":")[1] for image in images if image.startswith("flwr/")}
    arguments = {
        service["build"]["args"]["FLWR_VERSION"]
        for files in STACKS
        for service in flower_services(files).values()
        if "build" in service
    }
    assert tags == arguments == {built}, "all of them have the same"
    assert admitted(built, version("flwr"))


@pytest.mark.parametrize(
    ("tag", "installed", "allowed"),
    [
        ("1.41.0", "1.41.0", True),
        ("1.41.0", "1.42.0", True),
        ("1.42.0", "1.41.0", False),
        ("1.40.0", "1.41.0", False),
        ("2.0.0", "2.0.0", False),
    ],
)
def test_a_newer_flower_here_leaves_the_images_as_they_are(
    tag: str, installed: str, allowed: bool
) -> None:
    assert admitted(tag, installed) is allowed
