import math
from dataclasses import replace

import numpy as np
import pytest

from simulations.config import RunConfig
from simulations.report.participation import participation_table as draws
from simulations.runs.experiment import open_experiment


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> RunConfig:
    folder = tmp_path_factory.mktemp("data")
    return RunConfig(clients=30, dataset="synthetic:600:60", data_dir=str(folder))


def test_a_row_per_seed_says_how_often_clients_come(config):
    table = draws(config, [1, 3])
    assert [row[0] for row in table.rows] == ["1", "3"]
    for seed, row in zip((1, 3), table.rows, strict=True):
        changed = replace(config, seed=seed)
        p = open_experiment(changed).probabilities
        assert row[1] == f"{p.sum():.1f}"
        assert row[2] == f"{sum(1 / x for x in p) / 30:.1f}"
        assert row[3] == f"{100 * sum(x == 0.02 for x in p) / 30:.1f}"
        most, rarest = float(row[4]), float(row[5])
        assert 100 * p.min() - 0.05 <= rarest < most <= 100 * p.max() + 0.05


def test_the_authors_draw_says_so_and_is_another(config):
    authors = replace(config, draw="authors")
    table = draws(authors, [1])
    assert table.title.endswith(", drawn as by the paper's authors")
    assert table.rows != draws(config, [1]).rows


def test_alike_clients_have_no_harder_draw_than_their_mean(config):
    alike = replace(config, alpha_participation=1e9, alpha_data=0.1)
    (row,) = draws(alike, [1]).rows
    assert float(row[1]) == pytest.approx(3.0, abs=0.1)
    assert float(row[2]) == pytest.approx(10.0, abs=0.1)
    assert float(row[4]) == pytest.approx(float(row[5]), abs=0.1)


def test_without_a_floor_the_difficulty_is_told_by_its_magnitude(config):
    bare = replace(config, min_participation=0.0, alpha_participation=0.01)
    (row,) = draws(bare, [1]).rows
    p = open_experiment(bare).probabilities
    assert float(row[2]) == pytest.approx(np.mean(1 / p), rel=0.05)
    assert math.log10(float(row[2])) > 6
    assert "e+" in row[2]
