from collections import Counter

import pytest

from simulations.config import ConfigError
from simulations.report.paper import published
from simulations.report.setting import Setting
from simulations.report.studies import STUDIES, study, study_configs


def configs(name, given=None, *, seeds=(1,), methods=None, parent):
    return study_configs(study(name), given or {}, seeds=seeds, parent=parent, methods=methods)


@pytest.mark.parametrize(
    ("name", "runs", "in_paper"),
    [
        ("main", 4 * 3 * 7, 4 * 3 * 7),
        ("heterogeneity", 5 * 7, 5 * 7),
        ("low-participation", 3 * 6, 3 * 6),
        ("cutoff", 8 * 5, 2),
        ("spread", 4, 4),
        ("weights", 2, 2),
        ("patterns", 1, 1),
        ("fedawe", 2 * 4 * 7, 0),
    ],
)
def test_studies_are_the_papers(tmp_path, name, runs, in_paper):
    found = configs(name, parent=tmp_path)
    settings = [Setting.of(config) for config in found]
    assert len(set(settings)) == runs
    assert sum(published(setting) is not None for setting in settings) == in_paper


def test_every_run_of_a_study_has_its_own_directory(tmp_path):
    for name in STUDIES:
        folders = [config.run_dir for config in configs(name, seeds=(1, 2), parent=tmp_path)]
        assert max(Counter(folders).values()) == 1


def test_options_take_the_place_of_axes_and_other_settings(tmp_path):
    given = {"dataset": "svhn, synthetic", "pattern": "cyclic", "num_server_rounds": 30}
    found = configs("main", given, seeds=(4,), methods=["fedau:7"], parent=tmp_path)
    assert [(c.dataset, c.pattern, c.rounds, c.seed, c.algorithm.cutoff) for c in found] == [
        ("svhn", "cyclic", 30, 4, 7),
        ("synthetic", "cyclic", 30, 4, 7),
    ]
    assert found[0].run_dir == str(tmp_path / "svhn-cyclic" / "fedau-7-seed4")


def test_an_axis_of_numbers_can_be_fixed(tmp_path):
    found = configs("heterogeneity", {"alpha_participation": 0.3}, parent=tmp_path)
    assert {config.alpha_participation for config in found} == {0.3}
    assert "cifar10-bernoulli-alpha-participation-0.3" in found[0].run_dir


def test_a_floor_of_ones_own_replaces_the_studys(tmp_path):
    found = configs("low-participation", {"min_participation": 0.01}, parent=tmp_path)
    assert {config.min_participation for config in found} == {0.01}


def test_an_unknown_study_is_named():
    with pytest.raises(ConfigError, match="NAME is 'all', but must be one of main, hetero"):
        study("all")


def test_fedawes_study_has_a_local_step_size_per_method(tmp_path):
    found = configs("fedawe", {"pattern": "bernoulli", "dataset": "svhn"}, parent=tmp_path)
    assert {config.algorithm.name: config.lr for config in found} == {
        **dict.fromkeys(["average-participating", "average-all", "fedau", "mifa", "fedvarp"], 0.05),
        **dict.fromkeys(["fedawe", "known-statistics"], 0.1),
    }
    assert {(c.draw, c.clients, c.lr_decay, c.rounds) for c in found} == {
        ("fedawe", 100, 0.1, 2000)
    }
    given = {"lr": 0.2, "pattern": "bernoulli"}
    assert {config.lr for config in configs("fedawe", given, parent=tmp_path)} == {0.2}
