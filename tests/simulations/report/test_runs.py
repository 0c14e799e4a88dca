import numpy as np
import pytest

from simulations.config import ConfigError
from simulations.report.runs import class_presence, find_runs, panels, run_paths
from tests.simulations.report.made_runs import made_run, participation_of


def test_runs_are_found_at_any_depth_and_not_within_runs(tmp_path):
    for name in ("b", "a/deep/run"):
        run = made_run(tmp_path / name, seed=len(name))
        (run.states / "1").mkdir(parents=True)
        (run.states / "1" / "config.toml").touch()
    assert list(run_paths(tmp_path)) == [tmp_path / "a/deep/run", tmp_path / "b"]
    assert [run.seed for run in find_runs(tmp_path)] == [1, 10]


def test_a_run_itself_is_a_directory_with_one_run(tmp_path):
    made_run(tmp_path / "run")
    assert len(find_runs(tmp_path / "run")) == 1


@pytest.mark.parametrize("name", ["missing", "empty", "started", "file"])
def test_a_directory_without_results_is_an_error_of_one_sentence(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    made_run(tmp_path / "started/run").metrics_file.unlink()
    with pytest.raises(ConfigError, match=r"^DIR is '.*', but must .*\.$"):
        find_runs(tmp_path / name)


def test_a_repeated_run_is_no_further_seed(tmp_path):
    made_run(tmp_path / "a", num_server_rounds=20, until=10, status="stopped")
    made_run(tmp_path / "b", num_server_rounds=20)
    made_run(tmp_path / "c", num_server_rounds=20)
    (run,) = find_runs(tmp_path)
    assert run.directory.path == tmp_path / "b"


def test_a_run_that_goes_on_says_how_far_it_is(tmp_path):
    made_run(tmp_path / "a", num_server_rounds=20, until=10, status="running")
    made_run(tmp_path / "b", num_server_rounds=20, until=10, status="diverged", seed=2)
    made_run(tmp_path / "c", num_server_rounds=20, seed=3)
    assert [run.reached for run in find_runs(tmp_path)] == [10, None, None]


def test_methods_and_step_sizes_share_a_panel_and_other_settings_do_not(tmp_path):
    for number, changes in enumerate(
        [{}, {"seed": 2}, {"method": "mifa"}, {"lr": 0.5}, {"alpha_participation": 0.5}]
    ):
        made_run(tmp_path / str(number), **changes)
    one, other = panels(find_runs(tmp_path))
    assert one.title == "synthetic, bernoulli, α_p = 0.1"
    assert one.name == "synthetic-bernoulli-alpha-participation-0.1"
    counts = {label: len(runs) for label, runs in one.lines.items()}
    assert counts == {"fedau K=50, γ=0.178": 2, "fedau K=50, γ=0.5": 1, "mifa, γ=0.178": 1}
    assert list(other.lines) == ["fedau K=50"]


def test_participation_of_classes_is_weighted_by_samples(tmp_path):
    arrays = participation_of([0.5, 0.1, 0.3])
    arrays["class_shares"][2] = arrays["class_shares"][0]
    arrays["sizes"][:] = [30, 10, 10]
    made_run(tmp_path / "run", participation=arrays)
    (run,) = find_runs(tmp_path)
    assert run.classes.participation[:3] == pytest.approx([0.45, 0.1, 0.0])


def test_a_class_is_there_as_often_as_the_clients_that_hold_it():
    p = np.array([0.1, 0.5, 0.9])
    shares = np.array([[1.0, 0.0], [0.5, 0.5], [0.3, 0.7]])
    sizes = np.array([10, 20, 0])
    np.testing.assert_allclose(class_presence(p, shares, sizes), [(1 + 5) / 20, 0.5])
