"""Runs with privacy: the key, what it becomes, and a crash in the middle."""

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from fedau_flwr import GaussianPrivacy, MatrixPrivacy
from fedau_flwr.privacy.calculator import COLUMNS, effective_noise
from simulations.config import ConfigError, RunConfig
from simulations.nodes.client_states import ClientStates
from simulations.runs.directory import RunDirectory
from simulations.runs.shared_arrays import DIRECTORY
from tests.simulations.experiments import Crash, run, tiny

KEPT = Path(__file__).parents[2] / "simulations/results/privacy"


def test_what_the_key_becomes(tmp_path):
    assert RunConfig().protection.settings(20, None) is None
    gaussian = RunConfig(method="fedau:80", privacy="gaussian:separation=10").protection
    settings = gaussian.settings(100, tmp_path)
    assert isinstance(settings, GaussianPrivacy)
    assert settings.rounds_left(200) == 100
    matrix = RunConfig(method="fedau:80", privacy="matrix:8:1e-6:norm=2:separation=10").protection
    settings = matrix.settings(100, tmp_path)
    assert isinstance(settings, MatrixPrivacy)
    assert (settings.norm, settings.delta, settings.rounds) == (2.0, 1e-6, 100)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"privacy": "laplace"}, r"^privacy is 'laplace', but must be"),
        ({"privacy": "matrix:norm=0"}, r"^norm of privacy matrix is 0.0, but must be above 0\.$"),
        ({"privacy": "gaussian:delta=1"}, r"^delta of privacy gaussian is 1.0, but must be"),
        ({"privacy": "gaussian", "method": "fedavg"}, r"^privacy is .*none for fedavg"),
        ({"privacy": "matrix", "secure_sum": True}, r"none or gaussian with secure-sum: there"),
        (
            {"privacy": "gaussian:separation=50"},
            r"^method is 'fedau', but must be one with a cutoff above 50, .* better 200: fedau:200",
        ),
    ],
)
def test_bad_settings_get_one_sentence(changes, sentence):
    with pytest.raises(ConfigError, match=sentence):
        RunConfig(**changes)


def test_a_private_run_has_the_same_rounds_when_it_is_resumed():
    private = RunConfig(privacy="gaussian", num_server_rounds=20)
    with pytest.raises(ConfigError, match=r"num-server-rounds is 30, but must be 20 as in the run"):
        RunConfig(privacy="gaussian", num_server_rounds=30).same_training(private)


PRIVATE = {"method": "fedau:20", "num_server_rounds": 12, "evaluate_every": 4}


def answered(directory, clients=14):
    states = ClientStates(directory / "states")
    return [
        [one for one, _ in states.client(number).answers("").recent] for number in range(clients)
    ]


@pytest.mark.parametrize("per_node", [0, 1])
def test_clients_of_a_simulation_keep_their_rounds_apart(tmp_path, per_node):
    config = tiny(tmp_path, "run", **PRIVATE, privacy="gaussian:separation=3:norm=5",
                  clients_per_node=per_node, mean_participation=0.8, reply_loss=0.3)  # fmt: skip
    directory = run(config)
    rounds = answered(directory.path)
    assert max(len(some) for some in rounds) == 4
    assert all(later - earlier >= 3 for some in rounds for earlier, later in pairwise(some))
    lines = directory.metrics()
    assert [line["epsilon"] for line in lines] == sorted(line["epsilon"] for line in lines)
    assert lines[-1]["epsilon"] == pytest.approx(8.0)
    assert lines[-1]["epsilon_renyi"] > 8.0
    with np.load(directory.participation_file) as kept:
        assert (
            kept["counted"].sum() < sum(len(some) for some in rounds) < kept["participated"].sum()
        )


@pytest.mark.parametrize(
    ("method", "separation"), [("fedau:20", 3), ("mifa", 1)], ids=["fedau", "mifa"]
)
def test_a_crashed_run_goes_on_from_what_it_has_released(tmp_path, method, separation, monkeypatch):
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "shared"))  # of which such a run must make no use
    privacy = f"matrix:separation={separation}:norm=5"
    settings = {**PRIVATE, "method": method, "privacy": privacy, "mean_participation": 0.8}
    config = tiny(tmp_path, "run", **settings)
    with pytest.raises(Crash):
        run(config, crash_after=11)
    before = RunDirectory(Path(config.run_dir))
    kept = {path.name: path.read_bytes() for path in (before.path / "releases").iterdir()}
    assert sorted(kept)[-1] == "round-000010.npz"
    rounds = answered(before.path) if separation > 1 else [[]] * 14
    directory = run(tiny(tmp_path, "run", **settings, resume=True))
    assert directory.outcome()["status"] == "finished"
    for old, new in zip(rounds, answered(directory.path), strict=True):
        # Round 11 was answered for nothing, and nobody was asked for an earlier one again.
        assert new[: len(old)] == old
        assert all(later - earlier >= separation for earlier, later in pairwise(new))
    with np.load(directory.participation_file) as kept:
        if separation == 1:
            # Nobody was kept out for what the run no longer knew.
            assert kept["counted"].sum() == kept["participated"].sum()
    assert directory.metrics()[-1]["epsilon"] == pytest.approx(8.0)
    log = directory.log_file.read_text()
    assert "Going on after round 6" in log


def test_the_kept_table_of_effective_noise_is_what_the_command_writes():
    with (KEPT / "effective-noise.csv").open(encoding="utf-8") as file:
        head, *kept = csv.reader(file)
    assert head == list(COLUMNS)
    separations = (1, 10, 20, 50, 100)
    found = effective_noise(epsilon=8.0, delta=1e-5, rounds=2000, separations=separations)
    assert [row[:3] for row in kept] == [list(map(str, row[:3])) for row in found]
    numbers = np.array([row[3:] for row in kept], float)
    np.testing.assert_allclose(numbers, [row[3:] for row in found], atol=2e-4)
    errors = {(int(row[0]), row[1]): float(row[4]) for row in kept}
    published = {(10, 64): 0.352, (20, 64): 0.266, (50, 100): 0.188, (100, 200): 0.151}
    published |= {(10, 10): 0.382, (20, 20): 0.288, (50, 50): 0.201, (100, 100): 0.157}
    for (separation, bands), expected in published.items():
        assert errors[separation, f"{bands} bands"] == pytest.approx(expected, abs=6e-4)
        assert errors[separation, "buffers"] < expected + 1e-3
    noise = {(int(row[0]), row[1]): float(row[3]) for row in kept}
    for separation, expected in zip(separations, (26.84, 8.49, 6.00, 3.80, 2.68), strict=True):
        assert noise[separation, "separated"] == pytest.approx(expected, abs=6e-3)


def test_the_kept_runs_keep_the_guarantee_and_show_the_difference():
    with (KEPT / "privacy.csv").open(encoding="utf-8") as file:
        rows = {row["privacy"]: row for row in csv.DictReader(file)}
    test = {name: float(row["test mean"]) for name, row in rows.items()}
    for norm in ("5.0", "20.0"):
        plain, apart, correlated = (
            f"gaussian:norm={norm}",
            f"gaussian:norm={norm}:separation=20",
            f"matrix:norm={norm}:separation=20",
        )
        assert test[plain] < test[apart] < test[correlated] < test["none"]
        assert {rows[name]["ε"] for name in (plain, apart, correlated)} == {"8.00"}
