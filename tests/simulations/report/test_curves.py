import numpy as np
import pytest

from simulations.report.plots import curves, moving_average
from simulations.report.runs import find_runs, panels
from tests.simulations.report.made_runs import made_run


def test_mean_and_deviation_are_over_seeds_and_window():
    rounds = np.array([0.0, 10.0, 20.0, 30.0])
    centres, means, stds = moving_average(
        [rounds, rounds],
        [np.array([0.0, 1.0, 2.0, np.nan]), np.array([2.0, 3.0, 4.0, 5.0])],
        window=20,
    )
    assert centres.tolist() == [0, 10, 20, 30]
    assert means == pytest.approx([1.5, 2.0, 3.0, 11 / 3])
    assert stds[0] == pytest.approx(np.std([0, 1, 2, 3]))
    assert stds[3] == pytest.approx(np.std([2, 4, 5]))


def test_a_narrow_window_leaves_the_mean_over_seeds():
    rounds = [np.array([1.0, 2.0])] * 2
    _, means, stds = moving_average(rounds, [np.array([1.0, 2.0]), np.array([3.0, 2.0])], window=1)
    assert means.tolist() == [2.0, 2.0]
    assert stds.tolist() == [1.0, 0.0]


def test_a_single_value_has_no_deviation():
    rounds = np.array([100.0, 200.0, 210.0])
    _, means, stds = moving_average([rounds], [np.array([1.0, 2.0, 4.0])], window=30)
    assert means.tolist() == [1.0, 3.0, 3.0]
    assert np.isnan(stds[0])
    assert stds[1:].tolist() == [1.0, 1.0]


def test_every_method_has_a_line_and_a_band_in_each_panel(tmp_path):
    for seed in (1, 2):
        made_run(tmp_path / f"fedau-{seed}", seed=seed)
        made_run(tmp_path / f"mifa-{seed}", method="mifa", seed=seed)
    made_run(
        tmp_path / "diverged", method="fedvarp", until=4, status="diverged", loss=lambda t: 1e9
    )
    (panel,) = panels(find_runs(tmp_path))
    figure = curves(panel)
    names = ["training loss", "training accuracy in %", "test accuracy in %"]
    assert [axis.get_ylabel() for axis in figure.axes] == names
    for axis in figure.axes:
        assert (len(axis.lines), len(axis.collections)) == (3, 3)
        assert len({line.get_color() for line in axis.lines}) == 3
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == ["fedau K=50", "fedvarp (diverged)", "mifa"]
    assert figure.axes[2].lines[0].get_ydata()[-1] == pytest.approx(50.0)
    assert figure.axes[0].get_ylim()[1] == pytest.approx(2 * np.log(10))


def test_the_steep_start_leaves_the_picture_and_nothing_else_does(tmp_path):
    made_run(
        tmp_path / "fedau",
        num_server_rounds=100,
        evaluate_every=10,
        accuracy=lambda t: 0.1 if t <= 20 else 0.7 + t / 1000,
        loss=lambda t: 2.0 if t <= 20 else 0.5 - t / 1000,
    )
    (panel,) = panels(find_runs(tmp_path))
    loss, _, test = curves(panel).axes
    values = test.lines[0].get_ydata()
    assert values[1] == pytest.approx(10)
    assert 72 < test.get_ylim()[0] < 73 <= min(values[2:])
    assert max(values) < test.get_ylim()[1] < 81
    values = loss.lines[0].get_ydata()
    assert values[1] == pytest.approx(2.0)
    assert max(values[2:]) <= 0.47 < loss.get_ylim()[1] < 0.48
    assert 0.39 < loss.get_ylim()[0] < min(values)


def test_a_start_that_is_not_steep_stays_in_the_picture(tmp_path):
    made_run(
        tmp_path / "fedau",
        num_server_rounds=100,
        evaluate_every=10,
        accuracy=lambda t: t / 200,
        loss=lambda t: 2.4 - t / 100,
    )
    (panel,) = panels(find_runs(tmp_path))
    loss, _, test = curves(panel).axes
    assert test.get_ylim()[0] < 5.0 == min(test.lines[0].get_ydata())
    assert loss.get_ylim()[1] > 2.3 == max(loss.lines[0].get_ydata())


def test_more_lines_get_more_room(tmp_path):
    for cutoff in (1, 2, 3, 4):
        made_run(tmp_path / f"fedau-{cutoff}", method=f"fedau:{cutoff}")
    (panel,) = panels(find_runs(tmp_path))
    usual = curves(panel).get_figheight()
    for cutoff in (5, 6, 7, 8):
        made_run(tmp_path / f"fedau-{cutoff}", method=f"fedau:{cutoff}")
    (panel,) = panels(find_runs(tmp_path))
    assert curves(panel).get_figheight() == usual + 2
