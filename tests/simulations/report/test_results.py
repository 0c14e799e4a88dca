import numpy as np
import pytest

from simulations.report.results import accuracy, by_class, spread, tables, write
from simulations.report.runs import find_runs, panels
from tests.simulations.report.made_runs import made_run, participation_of

CIFAR = {"dataset": "cifar10", "num_server_rounds": 0, "evaluate_every": 1000}


def column(table, name) -> list[str]:
    return [str(row[table.header.index(name)]) for row in table.rows]


def test_accuracy_is_of_the_last_200_rounds_and_over_seeds(tmp_path):
    # The 20 reports of the rounds 9,810 … 10,000 are in; that of round 9,800 is not.
    made_run(tmp_path / "1", accuracy=lambda t: 0.7 if t > 9_800 else 0.0, **CIFAR)
    made_run(tmp_path / "2", accuracy=lambda t: 0.74 if t > 9_800 else 1.0, seed=2, **CIFAR)
    table = accuracy(find_runs(tmp_path))
    assert table.header == [
        "data set", "pattern", "method", "train accuracy", "test accuracy",
        "paper: train accuracy", "paper: test accuracy", "train loss", "seeds",
    ]  # fmt: skip
    assert [[str(cell) for cell in row] for row in table.rows] == [
        ["CIFAR-10", "bernoulli", "fedau K=50", "82.0 ± 2.8", "72.0 ± 2.8", "86.0 ± 0.5",
         "77.3 ± 0.3", "1.000 ± 0.000", "1, 2"]
    ]  # fmt: skip


def test_each_seed_can_have_a_row_of_its_own(tmp_path):
    for seed, accurate in ((1, 0.7), (2, 0.74)):
        made_run(tmp_path / f"{seed}", accuracy=lambda t, a=accurate: a, seed=seed, **CIFAR)
    table = accuracy(find_runs(tmp_path), each_seed=True)
    assert column(table, "test accuracy") == ["70.0", "74.0"]
    assert column(table, "paper: test accuracy") == ["77.3 ± 0.3"] * 2
    assert column(table, "seeds") == ["1", "2"]
    assert table.remark.startswith("Means over the last 200 rounds")


def test_the_papers_numbers_are_left_out_where_none_match(tmp_path):
    made_run(tmp_path / "1", **{**CIFAR, "num_server_rounds": 100})
    assert not [name for name in accuracy(find_runs(tmp_path)).header if "paper" in name]


def test_a_shorter_run_stands_beside_the_papers_and_says_so(tmp_path):
    shorter = {**CIFAR, "num_server_rounds": 1_000}
    made_run(tmp_path / "1", **shorter)
    made_run(tmp_path / "2", method="fedavg", **shorter)
    table = accuracy(find_runs(tmp_path))
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert [str(row["paper: test accuracy"]) for row in rows] == ["77.3 ± 0.3", ""]
    assert {row["remark"] for row in rows} == {"1,000 of the paper's 10,000 rounds"}


def test_mixed_settings_are_separate_rows_with_the_difference_in_a_column(tmp_path):
    made_run(tmp_path / "1")
    made_run(tmp_path / "2", clients=100)
    made_run(tmp_path / "3", method="mifa")
    table = accuracy(find_runs(tmp_path))
    assert column(table, "N") == ["100", "250", "250"]
    assert column(table, "method") == ["fedau K=50", "fedau K=50", "mifa"]


def test_a_diverged_run_counts_with_the_model_that_it_ended_with(tmp_path):
    values = {"accuracy": lambda t: 0.1 if t == 20 else 0.8}
    values["loss"] = lambda t: float("nan") if t == 20 else 0.5
    made_run(tmp_path / "1", num_server_rounds=400, until=20, status="diverged", **values)
    made_run(tmp_path / "2", num_server_rounds=400, seed=2, accuracy=lambda t: 0.5)
    table = accuracy(find_runs(tmp_path))
    assert column(table, "test accuracy") == ["30.0 ± 28.3"]
    assert column(table, "train loss") == ["no number"]
    assert column(table, "remark") == ["1 of 2 diverged"]


def test_a_run_that_goes_on_is_a_row_of_its_own(tmp_path):
    made_run(tmp_path / "1", num_server_rounds=40)
    made_run(tmp_path / "2", num_server_rounds=40, until=10, status="stopped", seed=2)
    assert column(accuracy(find_runs(tmp_path)), "remark") == ["", "after round 10 of 40"]


def test_spread_is_over_clients_with_data(tmp_path):
    def clients(scale):
        values = {"loss": [1.0, 3.0], "train_accuracy": [0.4, 0.6], "test_accuracy": [0.1, 0.5]}
        return {key: np.append(scale * np.array(v), np.nan) for key, v in values.items()}

    made_run(tmp_path / "1", final_clients=clients(1.0), **CIFAR)
    made_run(tmp_path / "2", final_clients=clients(0.5), seed=2, **CIFAR)
    table = spread(find_runs(tmp_path))
    assert column(table, "loss") == ["0.750 ± 0.354"]
    assert column(table, "train accuracy") == ["7.5 ± 3.5"]
    assert column(table, "test accuracy") == ["15.0 ± 7.1"]
    assert [column(table, f"paper: {name}") for name in ("loss", "train accuracy")] == [
        ["0.016"], ["9.5"],
    ]  # fmt: skip
    assert "compare the order" in table.remark


def test_there_is_no_spread_without_final_clients(tmp_path):
    made_run(tmp_path / "1")
    assert spread(find_runs(tmp_path)) is None


def test_classes_are_ordered_by_participation(tmp_path):
    p = np.linspace(0.1, 0.55, 10)
    values = np.linspace(0.0, 0.9, 10)
    made_run(tmp_path / "1", participation=participation_of(p), class_accuracy=values)
    (panel,) = panels(find_runs(tmp_path))
    table = by_class(panel)
    assert table.header == ["class", "participation", "fedau K=50"]
    assert [str(cell) for cell in table.rows[0]] == ["class-9", "55.0", "90.0"]
    assert [str(cell) for cell in table.rows[1]] == ["class-8", "50.0", "80.0"]


def test_over_seeds_classes_are_places_in_the_order_of_participation(tmp_path):
    p, values = np.linspace(0.1, 0.55, 10), np.linspace(0.0, 0.9, 10)
    made_run(tmp_path / "1", participation=participation_of(p), class_accuracy=values)
    made_run(
        tmp_path / "2", participation=participation_of(p[::-1]), class_accuracy=values[::-1], seed=2
    )
    (panel,) = panels(find_runs(tmp_path))
    table = by_class(panel)
    assert column(table, "class")[:2] == ["no. 1", "no. 2"]
    assert column(table, "fedau K=50")[:2] == ["90.0 ± 0.0", "80.0 ± 0.0"]


def test_of_many_classes_the_outermost_are_shown(tmp_path):
    shares = np.eye(100)
    arrays = participation_of(np.linspace(0.01, 1.0, 100), shares=shares)
    made_run(
        tmp_path / "1",
        participation=arrays,
        class_accuracy=np.linspace(0, 0.99, 100),
        **{**CIFAR, "dataset": "cifar100", "num_server_rounds": 20},
    )
    (panel,) = panels(find_runs(tmp_path))
    table = by_class(panel)
    assert [name.removeprefix("fine-") for name in column(table, "class")] == [
        "99", "98", "97", "96", "95", "4", "3", "2", "1", "0",
    ]  # fmt: skip


def test_tables_are_written_as_markdown_and_csv(tmp_path):
    made_run(tmp_path / "1", participation=participation_of([0.1] * 10))
    found = tables(find_runs(tmp_path))
    files = write(found, tmp_path / "new")
    names = ["tables.md", "accuracy.csv", "classes-synthetic-bernoulli.csv"]
    assert [file.name for file in files] == names
    assert files[0].read_text() == "\n".join(table.markdown() for table in found)
    assert files[1].read_text().splitlines()[1] == "synthetic,bernoulli,fedau K=50,60,,50,,1,,1"
    assert found[0].rows[0][3].mean == pytest.approx(60.0)
