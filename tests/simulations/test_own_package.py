"""A package outside of this repository's own brings a method, a task and a pattern."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from simulations.runs.directory import RunDirectory
from tests.simulations.experiments import assert_same, model_of

CLONE = Path(__file__).parents[2]
OWN = Path(__file__).parent / "own_package"
SETTINGS = (
    "--clients 8 --mean-participation 0.6 --min-participation 0.2 --rounds 7 --evaluate-every 7 "
    "--local-steps 20 --lr 0.5 --device cpu --workers 2"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Install the package as pip would do it, without a network."""
    place = tmp_path_factory.mktemp("site")
    shutil.copytree(OWN / "own_fl", place / "own_fl")
    project = tomllib.loads((OWN / "pyproject.toml").read_text())["project"]
    info = place / f"own_fl-{project['version']}.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(head)
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return place


def fedau(site, tmp_path, command):
    """Run a command with the package installed."""
    environment = os.environ | {
        "PYTHONPATH": f"{site}{os.pathsep}{CLONE}",
        "FLWR_TELEMETRY_ENABLED": "0",
    }
    result = subprocess.run(
        [sys.executable, "-c", "from fedau_flwr.cli import main; main()", *command.split()],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def compared(site, tmp_path_factory):
    """Compare by the names that the package announces."""
    place = tmp_path_factory.mktemp("compared")
    command = (
        f"compare --methods fading:0.8,fedavg --dataset digits --pattern weekdays:6 {SETTINGS}"
    )
    return fedau(site, place, f"{command} --out out"), place / "out"


def test_names_that_a_package_announces_can_be_compared(compared):
    output, place = compared
    assert "fading rate=0.8" in output
    run = RunDirectory(place / "fading-rate-0.8-seed1")
    saved = tomllib.loads(run.config_file.read_text())
    assert (saved["method"], saved["dataset"]) == ("fading:rate=0.8", "digits")
    assert saved["pattern"] == "weekdays:workdays=6"
    (report,) = [json.loads(line) for line in run.metrics_file.read_text().splitlines()]
    # Guessing has an accuracy of 0.1.
    assert report["test_accuracy"] > 0.2
    assert len(report["test_class_accuracy"]) == 10
    assert model_of(run)["0.weight"].shape == (32, 64)
    with np.load(run.participation_file) as arrays:
        assert arrays["participated"].max() <= 6
    assert (place / "curves-digits-weekdays.png").is_file()


def test_an_import_path_needs_no_announcement(compared, site, tmp_path):
    _, place = compared
    bare = tmp_path / "site"
    shutil.copytree(site / "own_fl", bare / "own_fl")
    command = (
        "compare --methods own_fl.methods:Fading:rate=0.8 --dataset own_fl.tasks:Digits "
        f"--pattern own_fl.patterns:Weekdays:6 {SETTINGS} --out out"
    )
    fedau(bare, tmp_path, command)
    name = "fading-rate-0.8-seed1"
    ours = RunDirectory(tmp_path / "out" / name)
    assert 'method = "own_fl.methods:Fading:rate=0.8"' in ours.config_file.read_text()
    assert_same(model_of(RunDirectory(place / name)), model_of(ours))


def test_lists_name_what_packages_announce(site, tmp_path):
    for command, line in (
        ("methods", "fading"),
        ("tasks", "digits"),
        ("patterns", "weekdays"),
    ):
        last = fedau(site, tmp_path, command).splitlines()[-1]
        assert last.startswith(f"{line} ")
        assert "[" in last
