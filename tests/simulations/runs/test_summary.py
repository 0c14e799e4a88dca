import numpy as np
import pytest

from simulations.config import RunConfig
from simulations.runs.directory import RunDirectory
from simulations.runs.summary import Summary, last_rounds


def test_results_are_means_over_the_last_200_rounds_or_a_tenth_of_short_runs():
    assert [last_rounds(rounds) for rounds in (10_000, 2_000, 200, 5)] == [200, 200, 20, 1]


def report(run, number, accuracy, loss):
    values = {"round": number, "train_accuracy": accuracy, "test_accuracy": accuracy}
    run.report(
        {**values, "train_loss": loss, "test_loss": loss, "test_class_accuracy": [accuracy, None]}
    )


def test_a_summary_averages_the_end_of_a_run(tmp_path):
    run = RunDirectory.open(RunConfig(num_server_rounds=100, run_dir=str(tmp_path)))
    for number, accuracy in ((80, 0.1), (90, 0.2), (95, 0.4), (100, 0.6)):
        report(run, number, accuracy, 1.0)
    run.finish("finished", 100, "Done.")
    summary = Summary.of(tmp_path)
    assert summary.final["test_accuracy"] == pytest.approx(0.5)
    np.testing.assert_allclose(summary.final["test_class_accuracy"], [0.5, np.nan])
    assert summary.status == "finished"


def test_a_diverged_run_has_no_number_for_its_loss(tmp_path):
    run = RunDirectory.open(RunConfig(num_server_rounds=100, run_dir=str(tmp_path)))
    report(run, 40, 0.1, float("nan"))
    assert np.isnan(Summary.of(tmp_path).final["train_loss"])


def test_a_run_without_results_is_said(tmp_path):
    RunDirectory.open(RunConfig(run_dir=str(tmp_path)))
    with pytest.raises(ValueError, match="holds no results yet"):
        Summary.of(tmp_path)
