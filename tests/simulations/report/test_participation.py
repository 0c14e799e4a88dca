import numpy as np
import pytest

from fedau_flwr.availability import Trace
from simulations.config import RunConfig
from simulations.report.participation import (
    draw_participation,
    heterogeneity_picture,
    probability_picture,
    replay_weights,
    weight_paths,
)
from simulations.report.patterns import participation_of, pattern_line, pattern_picture
from simulations.runs.experiment import open_experiment


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> RunConfig:
    folder = tmp_path_factory.mktemp("data")
    return RunConfig(
        clients=30,
        dataset="synthetic:train=600:test=60",
        data_dir=str(folder),
        method="fedau:0",
        num_server_rounds=50,
    )


def test_patterns_show_when_one_client_is_there(config):
    figure = pattern_picture(config, 0.527)
    assert [axis.get_ylabel() for axis in figure.axes] == ["bernoulli", "markov", "cyclic"]
    cyclic = figure.axes[2].patches[0].get_data()
    assert cyclic.values.sum() == 4 * 53
    assert len(cyclic.edges) == 401
    assert figure.axes[2].get_title(loc="right") == "there in 212 of 400 rounds"


def test_heterogeneity_puts_class_shares_above_probabilities(config):
    experiment = open_experiment(config)
    figure = heterogeneity_picture(config)
    image = figure.axes[0].images[0].get_array()
    np.testing.assert_array_equal(image, experiment.split.class_shares.T)
    bars = [bar.get_height() for bar in figure.axes[1].patches]
    np.testing.assert_array_equal(bars, experiment.probabilities)


def test_distributions_of_probabilities_by_floor_and_by_mean(config):
    left, right = probability_picture(config).axes
    assert [len(left.lines), len(right.lines)] == [5, 3]
    assert left.get_xscale() == "log"
    assert [text.get_text() for text in right.get_legend().get_texts()] == [
        "mean of p = 0.1", "mean of p = 0.01", "mean of p = 0.001",
    ]  # fmt: skip
    assert left.lines[0].get_xdata().min() == 0.02
    # Without floor and cap the mean scales everything.
    ratio = right.lines[0].get_xdata()[-1] / right.lines[1].get_xdata()[-1]
    assert ratio == pytest.approx(10)


def test_all_pictures_are_written(config, tmp_path):
    files = draw_participation(config, tmp_path / "out", probability=0.3)
    assert sorted({file.stem for file in files}) == ["heterogeneity", "patterns", "probabilities"]
    assert all(file.stat().st_size > 1000 for file in files)


def test_replayed_weights_follow_the_path(config):
    record = replay_weights(config)
    p = record["probability"]
    frequent = int(np.argmin(abs(p - 0.527)))
    assert frequent in record["tracked"]
    place = record["tracked"].tolist().index(frequent)
    process = open_experiment(config).process
    rounds = np.array([process.active(t)[frequent] for t in range(50)])
    # With K → ∞ the weight is the last participation's round number over the count.
    count = np.cumsum(rounds)
    last = np.maximum.accumulate(np.where(rounds, np.arange(1, 51), 0))
    expected = np.where(count > 0, last / np.maximum(count, 1), 1.0)
    np.testing.assert_allclose(record["tracked_weights"][1:, place], expected[:-1])
    assert record["tracked_weights"][0, place] == 1.0
    assert weight_paths(record, "title") is not None
    assert weight_paths({**record, "mean_weight": np.empty(0)}, "title") is None


def test_a_recording_shows_the_client_that_comes_nearest(config, tmp_path):
    file = tmp_path / "events.csv"
    file.write_text("client,time,state\n0,0,on\n0,10,off\n1,0,on\n1,60,off\n2,100,off\n")
    text = f"events:{file}:round_seconds=10"
    figure = pattern_picture(config, 0.5, ["bernoulli", text])
    assert figure.axes[1].get_title(loc="right") == "there in 240 of 400 rounds"
    titles = [axis.get_title(loc="left") for axis in figure.axes]
    assert titles == ["", f"file={file} round_seconds=10.0"]
    assert pattern_line(config, text).endswith(
        ": 30 clients, 2.3% of them there, a mean interval of 2.8 rounds, over 400 rounds."
    )


def test_share_and_interval_of_a_process():
    table = np.zeros((12, 4), bool)
    table[[0, 5, 11], 1] = True
    table[3, 2] = True
    assert participation_of(Trace(table), 12) == (4 / 48, 11 / 2)
    assert participation_of(Trace(table[:4]), 4) == (2 / 16, None)
