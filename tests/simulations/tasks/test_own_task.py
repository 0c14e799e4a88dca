"""A task outside of the suite's own: a regression, with and without a split of its own."""

import numpy as np
import pytest
import torch
from torch import nn

from simulations.nodes.resident import ResidentModel
from simulations.report.plots import figures
from simulations.report.results import tables
from simulations.report.runs import find_runs
from simulations.runs.experiment import open_experiment
from simulations.tasks import DataError
from simulations.tasks.synthetic import Synthetic
from tests.simulations.experiments import model_of, run, tiny
from tests.simulations.tasks.line import Line

LINE = "tests.simulations.tasks.line:Line"


@pytest.fixture(scope="module", params=["fedau", "mifa", "fedavg"])
def trained(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("line")
    return run(tiny(place, "run", dataset=LINE, method=request.param, mean_participation=0.8))


def test_a_regression_finds_the_line(trained):
    model = model_of(trained)
    assert model["weight"].item() == pytest.approx(3, abs=0.5)
    assert model["bias"].item() == pytest.approx(-1, abs=0.3)
    last = trained.metrics()[-1]
    x = np.random.default_rng(1).uniform(-1, 1, (150, 1)).astype(np.float32)[:, 0]
    error = model["weight"].item() * x + model["bias"].item() - (3 * x - 1)
    assert last["train_absolute_error"] == pytest.approx(np.abs(error[:120]).mean(), rel=1e-4)
    assert last["test_absolute_error"] == pytest.approx(np.abs(error[120:]).mean(), rel=1e-4)
    assert last["test_loss"] == pytest.approx(np.square(error[120:]).mean(), rel=1e-4)
    assert "test_class_accuracy" not in last


def test_tables_and_plots_name_its_metric(trained):
    runs = find_runs(trained.path)
    (table,) = tables(runs)
    assert table.title == "Absolute error"
    assert table.header[3:5] == ["train absolute error", "test absolute error"]
    assert table.rows[0][0] == "line"
    names = [name for name, _ in figures(runs, ["curves", "classes"])]
    assert names == ["curves-line-bernoulli"]


def test_a_split_of_its_own_is_that_of_the_clients(tmp_path):
    split = open_experiment(tiny(tmp_path, "run", dataset=LINE)).split
    targets = Line().open(tmp_path, seed=1).train.targets
    highest = [targets[split.client(n)].max() for n in range(len(split))]
    assert highest == sorted(highest)
    assert split.sizes.sum() == 120
    np.testing.assert_array_equal(split.class_shares, np.ones((14, 1)))


def test_without_one_a_regression_is_split_evenly_and_all_come_as_often(tmp_path):
    config = tiny(tmp_path, "run", dataset=f"{LINE}:false", mean_participation=0.4)
    experiment = open_experiment(config)
    assert set(experiment.split.sizes) == {8, 9}
    assert sorted(experiment.split.indices) == list(range(120))
    np.testing.assert_allclose(experiment.probabilities, 0.4)


def test_running_statistics_are_refused():
    class Normed(Synthetic):
        name = "normed"
        title = "normed"

        def model(self):
            return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(3))

    with pytest.raises(DataError, match="layer 1 of the model of normed has running statistics"):
        ResidentModel(Normed())


def test_dropout_of_an_own_model_can_be_repeated(tmp_path):
    class Dropping(Line):
        def model(self):
            return nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.5))

    from simulations.nodes.resident import initial_parameters
    from simulations.nodes.trainer import LocalTrainer

    task = Dropping()
    trainer = LocalTrainer(task, task.open(tmp_path, seed=1).train)
    start = initial_parameters(task, seed=1)

    def loss(number):
        torch.rand(number)
        return trainer.train(start, np.arange(50), lr=0.1, seed=(1, 2, 3)).loss

    assert loss(1) == loss(2)
