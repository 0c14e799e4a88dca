"""Exact values where a reader can compute them."""

import numpy as np
import pytest

from simulations.config import ConfigError
from simulations.methods import METHODS
from simulations.report.results import tables
from simulations.report.runs import find_runs
from simulations.report.statistics import (
    against_paper,
    confidence_interval,
    paired,
    paper_cells,
    rounds_to,
)
from tests.simulations.report.made_runs import CLASSES, made_run

CIFAR = {"dataset": "cifar10", "num_server_rounds": 0, "evaluate_every": 1000}


def flat(path, value, **settings):
    return made_run(path, accuracy=lambda t: value, **settings)


def cells(table, name) -> list[str]:
    return [str(row[table.header.index(name)]) for row in table.rows]


def test_a_confidence_interval_is_students():
    # Mean 2, standard error sqrt(1/3), and 4.302653 is the quantile for two degrees of freedom.
    low, high = confidence_interval(np.array([1.0, 2.0, 3.0]))
    assert (low, high) == pytest.approx((2 - 2.48414, 2 + 2.48414), abs=1e-5)


def test_a_difference_to_the_paper_is_in_standard_errors_of_both(tmp_path):
    flat(tmp_path / "1", 0.77, **CIFAR)
    flat(tmp_path / "2", 0.79, seed=2, **CIFAR)
    train, test = paper_cells(find_runs(tmp_path))
    # Ours: 78 with a standard deviation of sqrt(2) over 2 seeds; the paper: 77.3 ± 0.3 over 5.
    assert test.difference == pytest.approx(0.7)
    assert test.errors == pytest.approx(0.7 / np.sqrt(2 / 2 + 0.3**2 / 5))
    assert train.difference == pytest.approx(88 - 86.0)
    table = against_paper(find_runs(tmp_path))
    ours = cells(table, "method").index("fedau K=50")
    assert cells(table, "train: difference")[ours] == "+2.0 (+2.0 SE)"
    assert cells(table, "test: difference")[ours] == "+0.7 (+0.7 SE)"
    assert cells(table, "seeds") == ["1, 2" if row == ours else "" for row in range(21)]
    # The other cells of the paper's CIFAR-10 column: three patterns with seven methods.
    assert cells(table, "test: ours").count("not run") == 20
    assert cells(table, "pattern") == ["bernoulli"] * 7 + ["markov"] * 7 + ["cyclic"] * 7
    assert cells(table, "test: paper")[0] == "77.1 ± 0.4"
    assert table.name in [found.name for found in tables(find_runs(tmp_path))]


def test_one_seed_has_no_standard_error(tmp_path):
    flat(tmp_path / "1", 0.77, **CIFAR)
    assert [cell.errors for cell in paper_cells(find_runs(tmp_path))] == [None, None]
    assert against_paper(find_runs(tmp_path)) is None


def test_a_run_that_goes_on_is_beside_nothing(tmp_path):
    for seed in (1, 2):
        flat(tmp_path / f"{seed}", 0.7, seed=seed, until=9_000, status="stopped", **CIFAR)
    assert paper_cells(find_runs(tmp_path)) == []


def test_differences_are_taken_seed_by_seed(tmp_path):
    for seed, base in ((1, 0.5), (2, 0.6), (3, 0.7)):
        flat(tmp_path / f"a{seed}", base, seed=seed)
        flat(tmp_path / f"b{seed}", base + 0.01 * seed, seed=seed, method="mifa")
    flat(tmp_path / "b4", 0.9, seed=4, method="mifa")
    (table,) = paired(find_runs(tmp_path), METHODS.find("fedau:50"))
    assert cells(table, "method") == ["fedau K=50", "mifa"]
    assert cells(table, "seeds") == ["1, 2, 3", "1, 2, 3"]
    assert cells(table, "test accuracy") == ["", "+2.00"]
    assert cells(table, "95 %") == ["", "-0.48 to +4.48"]
    assert cells(table, "worst class") == ["60.0 ± 10.0", "62.0 ± 11.0"]


def test_rounds_are_counted_until_the_best_average_is_reached(tmp_path):
    settings = {"num_server_rounds": 100, "evaluate_every": 5}
    for seed in (1, 2):
        made_run(tmp_path / f"a{seed}", seed=seed, accuracy=lambda t: t / 100, **settings)
        flat(tmp_path / f"b{seed}", 0.3, seed=seed, method="average-all", **settings)
        flat(tmp_path / f"c{seed}", 0.4, seed=seed, method="average-participating", **settings)
        flat(tmp_path / f"d{seed}", 0.2, seed=seed, method="mifa", **settings)
    (table,) = paired(find_runs(tmp_path), METHODS.find("fedau:50"))
    goals = dict(
        zip(cells(table, "method"), cells(table, "rounds to the best average"), strict=True)
    )
    # Reports every five rounds, ten of them on average: (40 + 45) / 2 is the first above 40 %.
    assert goals == {"fedau K=50": "45 ± 0", "average-participating": "5 ± 0",
                     "average-all": "never", "mifa": "never"}  # fmt: skip


def test_a_lucky_report_does_not_reach_a_goal(tmp_path):
    settings = {"num_server_rounds": 100, "evaluate_every": 5}
    made_run(tmp_path, accuracy=lambda t: 0.9 if t == 30 else t / 200, **settings)
    (run,) = find_runs(tmp_path)
    # With one neighbour: (25/200 + 0.9) / 2 = 0.5125 at round 30, 0.5375 at round 35.
    assert rounds_to(run, 0.54) is None
    assert rounds_to(run, 0.51) == 30


def test_spread_and_worst_class_are_there(tmp_path):
    accuracy = np.linspace(0.1, 1.0, CLASSES)
    clients = {key: np.array([0.2, 0.4]) for key in ("loss", "train_accuracy", "test_accuracy")}
    for method in ("fedau:50", "mifa"):
        path = tmp_path / method.replace(":", "")
        flat(path, 0.5, method=method, class_accuracy=accuracy, final_clients=clients)
    (table,) = paired(find_runs(tmp_path), METHODS.find("fedau"))
    assert cells(table, "spread over clients") == ["10.0", "10.0"]
    assert cells(table, "worst class") == ["10.0", "10.0"]
    assert "95 %" not in table.header  # of one seed


@pytest.mark.parametrize("reference", ["fedvarp", "mifa"])
def test_a_reference_must_be_there_with_another_method(tmp_path, reference):
    flat(tmp_path, 0.5, method="mifa")
    with pytest.raises(ConfigError, match=f"paired is '{reference}', but must be a method of"):
        paired(find_runs(tmp_path), METHODS.find(reference))
