"""A package outside of this repository's own brings a method, a task and a pattern."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from fedau_flwr import FedAUMod, UnitWeighting
from fedau_flwr.testing.in_process_grid import InProcessGrid
from simulations.client_app import app as client_app
from simulations.runs.directory import RunDirectory
from simulations.server_app import run_deployment
from tests.fedau_flwr.federation import Federation, record, training_app, values
from tests.simulations.experiments import assert_same, model_of, run, tiny
from tests.simulations.own_package.own_fl.methods import Fading

CLONE = Path(__file__).parents[2]
OWN = Path(__file__).parent / "own_package"
FADING = f"{Fading.__module__}:Fading"
PROGRAM = """
import sys
from fedau_flwr.cli import app, main
commands = sys.argv[1:]
sys.argv[1:] = commands.pop(0).split()
try:
    main()
except SystemExit as end:
    assert not end.code
for command in commands:
    app(command.split(), standalone_mode=False)
"""
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


def fedau(site, tmp_path, *commands):
    """Run commands with the package installed, in one process: most of the time is its start."""
    environment = os.environ | {
        "PYTHONPATH": f"{site}{os.pathsep}{CLONE}",
        "FLWR_TELEMETRY_ENABLED": "0",
    }
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, *commands],
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
    command = f"compare --methods fading:0.8 --dataset digits --pattern weekdays:6 {SETTINGS}"
    return fedau(site, place, f"{command} --out out"), place / "out"


@pytest.mark.engine
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


@pytest.mark.engine
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
    output = fedau(site, tmp_path, "methods", "tasks", "patterns")
    lines = [re.search(rf"^{name} .*", output, re.M) for name in ("fading", "digits", "weekdays")]
    assert all("[" in line[0] for line in lines)


def test_both_halves_of_the_method_are_its_formula_over_lost_replies():
    rng = np.random.default_rng(3)
    here, lost = rng.random((9, 4)) < 0.7, rng.random((9, 4)) < 0.3
    strategy = Fading(0.8).strategy(num_clients=4, server_learning_rate=0.5)

    def update(client, x, server_round):
        return 0.1 * (client - x) + 0.01 * server_round

    def train(client, arrays, server_round):
        return {"x": arrays["x"] + update(client, arrays["x"], server_round)}

    mod = FedAUMod(UnitWeighting(), transforms=Fading.transforms)
    grid = Federation(training_app(train, [mod]), 4)
    model, x, m = record(x=np.zeros(2)), np.zeros(2), np.zeros((4, 2))
    for t in range(9):
        grid.present = set(np.flatnonzero(here[t]).tolist())
        grid.lost = set(np.flatnonzero(lost[t]).tolist())
        model = grid.play(strategy, t + 1, model)
        counted = np.flatnonzero(here[t] & ~lost[t])
        m[counted] = [update(n, x, t + 1) + 0.8 * m[n] for n in counted]
        x = x + 0.5 * m[counted].sum(0) / 4
    np.testing.assert_allclose(values(model)["x"], x, rtol=1e-12)


def test_simulated_clients_know_the_clients_half_hosted_or_not(tmp_path):
    def model(name, **settings):
        return model_of(run(tiny(tmp_path, name, lr=0.1, server_lr=1.0, **settings)))

    hosted = model("hosted", method=f"{FADING}:0.8")
    alone = model("alone", method=f"{FADING}:0.8", clients_per_node=1)
    assert_same(hosted, alone, atol=1e-5)  # sums are taken in another order
    plain = model("plain", method="average-all")
    assert_same(plain, model("at-once", method=f"{FADING}:0.0"))
    assert not np.array_equal(hosted["dense.0.weight"], plain["dense.0.weight"])


def test_other_methods_take_its_task_and_pattern(tmp_path):
    package = Fading.__module__.rpartition(".")[0]
    own = {"dataset": f"{package}.tasks:Digits", "pattern": f"{package}.patterns:Weekdays:6"}
    done = run(tiny(tmp_path, "flower", method="fedavg", local_steps=20, lr=0.5, **own))
    assert done.metrics()[-1]["test_accuracy"] > 0.2
    with np.load(done.participation_file) as arrays:
        assert arrays["participated"].max() <= 18  # of 20 rounds, two at weekends


def test_deployed_clients_know_it_where_their_owner_allows_the_package(tmp_path):
    settings = {"pattern": "deployment", "clients": 3, "num_server_rounds": 2}
    config = tiny(tmp_path, "run", method=FADING, round_deadline=0.2, **settings)
    grid = InProcessGrid(client_app, 0, config.to_dict())
    for number in range(3):
        allowed = "own_fl" if number == 2 else "tests.simulations.own_package"
        grid.connect({"partition-id": number, "num-partitions": 3, "fedau-allow-import": allowed})
    done = run_deployment(grid, config)
    exposed = (done.path / "metrics.prom").read_text()
    totals = {
        name: float(re.search(rf"^fedau_{name}_total\S* (\S+)$", exposed, re.M)[1])
        for name in ("participations", "rejections")
    }
    assert totals == {"participations": 4, "rejections": 2}
