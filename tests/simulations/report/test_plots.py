import numpy as np
import pytest

from simulations.config import ConfigError
from simulations.report.plots import draw_runs, figures
from simulations.report.runs import find_runs
from tests.simulations.report.made_runs import made_run, participation_of

FINAL = {
    "loss": np.linspace(0, 1, 12),
    "train_accuracy": np.linspace(0, 1, 12),
    "test_accuracy": np.append(np.linspace(0, 1, 11), np.nan),
}


def made(directory) -> None:
    p = np.linspace(0.02, 0.6, 12)
    for method in ("fedau", "fedavg"):
        made_run(
            directory / method,
            method=method,
            participation=participation_of(p, rounds=20 if method == "fedau" else 0),
            final_clients=FINAL,
        )


def test_all_that_there_are_results_for_is_drawn(tmp_path):
    made(tmp_path)
    files = draw_runs(find_runs(tmp_path), tmp_path)
    kinds = ["curves", "classes", "clients", "weights"]
    names = [f"{kind}-synthetic-bernoulli" for kind in kinds]
    names[3] += "-fedau-K-50"
    assert [file.name for file in files] == [f"{n}.{e}" for n in names for e in ("png", "svg")]
    assert all(file.parent == tmp_path and file.stat().st_size > 1000 for file in files)


def test_plots_can_be_chosen_and_go_elsewhere(tmp_path):
    made(tmp_path / "runs")
    runs = find_runs(tmp_path / "runs")
    files = draw_runs(runs, tmp_path / "out", kinds=["curves"])
    assert [file.parent.name for file in files] == ["out", "out"]
    with pytest.raises(ConfigError, match="kinds has 'pie', but each must be one of curves, "):
        draw_runs(runs, tmp_path, kinds=["pie"])


def test_classes_have_a_bar_per_method(tmp_path):
    made(tmp_path)
    ((_, figure),) = figures(find_runs(tmp_path), ["classes"])
    (axis,) = figure.axes
    assert len(axis.patches) == 2 * 10
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["fedau K=50", "fedavg"]
    ticks = [label.get_text() for label in axis.get_xticklabels()]
    assert ticks[0].startswith("class-9\n")


def test_distributions_have_a_line_per_method_and_end_at_one(tmp_path):
    made(tmp_path)
    ((_, figure),) = figures(find_runs(tmp_path), ["clients"])
    for axis in figure.axes:
        assert len(axis.lines) == 2
        assert axis.lines[0].get_ydata()[[0, -1]].tolist() == [0.0, 1.0]
    # The client without data is in no distribution.
    assert len(figure.axes[2].lines[0].get_xdata()) == 12


def test_weights_stand_beside_the_reciprocal_probabilities(tmp_path):
    made(tmp_path)
    ((_, figure),) = figures(find_runs(tmp_path), ["weights"])
    titles = [axis.get_title() for axis in figure.axes]
    assert titles[0].startswith("mean over 12 clients")
    assert titles[1].startswith("client 10, p = 0.547")
    assert [title.split(",")[0] for title in titles[2:]] == ["client 0", "client 1", "client 2"]
    weight, target = figure.axes[1].lines
    assert weight.get_ydata()[0] == 1.0
    assert len(weight.get_xdata()) == 20
    assert target.get_ydata()[0] == pytest.approx(1 / np.linspace(0.02, 0.6, 12)[10])


def test_clients_that_never_come_have_no_reciprocal_to_show(tmp_path):
    record = participation_of(np.array([0.0, 0.5, 0.5, 0.5]), rounds=20)
    made_run(tmp_path / "run", participation=record, final_clients=FINAL)
    ((_, figure),) = figures(find_runs(tmp_path), ["weights"])
    titles = [axis.get_title() for axis in figure.axes]
    assert "client 0, p = 0\n1/p = inf (not shown)" in titles
    assert titles[0] == "mean over 4 clients\n1/p = inf (not shown)"


def test_cutoffs_make_a_line_per_floor_and_crosses_where_runs_diverged(tmp_path):
    for cutoff in (1, 50, 0):
        for floor in (0.02, 0.0):
            bad = cutoff == 0 and floor == 0.0
            made_run(
                tmp_path / f"{cutoff}-{floor}",
                method=f"fedau:{cutoff}",
                min_participation=floor,
                accuracy=lambda t: 0.6,
                status="diverged" if bad else "finished",
            )
    ((name, figure),) = figures(find_runs(tmp_path), ["cutoff"])
    assert name == "cutoff"
    axis = figure.axes[1]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "min p = 0", "min p = 0.02",
    ]  # fmt: skip
    assert axis.get_xscale() == "log"
    assert [label.get_text() for label in axis.get_xticklabels()] == ["1", "50", "∞"]
    crosses = [line for line in axis.lines if line.get_marker() == "x"]
    assert [len(line.get_xdata()) for line in crosses] == [1, 0]
    line = axis.containers[0].lines[0]
    assert line.get_ydata()[:2] == pytest.approx([60.0, 60.0])
    assert np.isnan(line.get_ydata()[2])


def test_two_cutoffs_are_too_few_for_a_line(tmp_path):
    for cutoff in (1, 50):
        made_run(tmp_path / str(cutoff), method=f"fedau:{cutoff}")
    assert list(figures(find_runs(tmp_path), ["cutoff"])) == []
