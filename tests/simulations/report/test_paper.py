from dataclasses import replace

import pytest

from simulations.config import RunConfig
from simulations.report.paper import Published, published, shortened
from simulations.report.setting import Setting


def setting(**changes) -> Setting:
    return Setting.of(RunConfig(**{"dataset": "cifar10", "num_server_rounds": 0, **changes}))


@pytest.mark.parametrize(
    ("changes", "train", "test"),
    [
        ({}, (86.0, 0.5), (77.3, 0.3)),
        ({"method": "fedau:0"}, (85.4, 0.4), (77.1, 0.4)),
        ({"method": "average-all", "dataset": "cinic10", "pattern": "markov"},
         (59.9, 2.8), (55.7, 2.2)),
        ({"method": "mifa", "dataset": "svhn", "pattern": "cyclic"}, (78.6, 1.2), (77.4, 1.1)),
        ({"method": "known-statistics", "dataset": "cifar100"}, (59.4, 0.7), (50.6, 0.4)),
        ({"method": "average-participating", "alpha_participation": 0.01},
         (80.6, 1.2), (72.3, 1.7)),
        ({"method": "fedvarp", "alpha_participation": 1.0}, (86.4, 0.7), (78.5, 0.3)),
        ({"method": "fedvarp", "min_participation": 0.0}, (61.5, 25.8), (59.5, 24.8)),
        ({"mean_participation": 0.001, "min_participation": 0.0}, (45.9, 1.2), (45.6, 1.2)),
        ({"method": "mifa", "mean_participation": 0.01, "min_participation": 0.0},
         (10.0, 0.0), (10.0, 0.0)),
    ],
)  # fmt: skip
def test_cells_of_the_paper(changes, train, test):
    found = published(setting(**changes))
    assert found is not None
    assert (found.train, found.test) == (train, test)


def test_only_the_papers_own_setting_has_its_spread():
    assert published(setting()) == Published((86.0, 0.5), (77.3, 0.3), (0.016, 9.5, 11.2))
    assert published(setting(pattern="markov")).spread is None
    assert published(setting(method="mifa")).spread is None


@pytest.mark.parametrize(
    "changes",
    [
        {"num_server_rounds": 9_999},
        {"clients": 100},
        {"alpha_data": 0.2},
        {"lr": 0.2},
        {"server_lr": 2.0},
        {"local_steps": 4},
        {"batch_size": 32},
        {"reply_loss": 0.1},
        {"method": "fedau:100"},
        {"mean_participation": 0.2},
        {"method": "fedavg"},
        {"dataset": "synthetic"},
        {"pattern": "sine"},
    ],
)
def test_other_settings_have_nothing_beside_them(changes):
    assert published(setting(**changes)) is None


def test_variants_that_the_paper_leaves_open_stand_beside_its_rows():
    cyclic = setting(pattern="cyclic")
    assert published(setting(pattern="cyclic-starts-inactive")) == published(cyclic)
    assert published(replace(cyclic, augmentation="per-batch")) == published(cyclic)
    assert published(replace(cyclic, draw="authors")) == published(cyclic)
    assert published(cyclic) is not None


@pytest.mark.parametrize("method", ["fedau", "average-all", "fedavg"])
def test_a_run_that_is_only_shorter_has_the_papers_length_whatever_its_method(method):
    for rounds, of_the_paper in ((999, None), (1_000, 10_000), (9_999, 10_000), (10_000, None)):
        found = setting(method=method, num_server_rounds=rounds)
        assert shortened(found) == of_the_paper
    assert shortened(setting(method=method, dataset="svhn", num_server_rounds=200)) == 2_000
    assert shortened(setting(method=method, clients=100, num_server_rounds=1_000)) is None
    assert shortened(setting(method=method, dataset="synthetic", num_server_rounds=1_000)) is None
