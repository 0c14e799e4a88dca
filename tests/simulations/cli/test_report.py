import math

import pytest
import typer
from typer.testing import CliRunner

from simulations.cli.report import register
from simulations.runs import resumption
from tests.simulations.report.made_runs import made_from, made_run, participation_of

app = typer.Typer()
register(app)


@pytest.fixture
def fedau(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, [str(a) for a in arguments])


@pytest.fixture
def launched(monkeypatch):
    """Make runs by hand instead of on a SuperLink."""
    configs = []

    def run_all(todo, resources, console, *, where):
        for config in todo:
            configs.append(config)
            made_from(config, loss=lambda t, config=config: 1 + abs(math.log10(config.lr or 1) + 1))
        return [{"status": "finished"} for _ in todo]

    monkeypatch.setattr(resumption, "run_all", run_all)
    return configs


def test_table_prints_and_writes(fedau, tmp_path):
    made_run(tmp_path / "runs/a", participation=participation_of([0.1] * 10))
    result = fedau("table", "runs")
    assert result.exit_code == 0
    assert "fedau K=50" in result.output
    assert str(tmp_path / "runs/tables.md") in result.output
    assert (tmp_path / "runs/accuracy.csv").is_file()
    assert fedau("table", "runs", "--out", "elsewhere").exit_code == 0
    assert (tmp_path / "elsewhere/tables.md").is_file()


def test_plot_draws_and_says_where(fedau, tmp_path):
    made_run(tmp_path / "runs/a")
    result = fedau("plot", "runs", "--kinds", "curves")
    assert result.exit_code == 0
    place = tmp_path / "runs/curves-synthetic-bernoulli"
    assert result.output.split("\n")[0] == f"{place}.png (and .svg)"
    assert place.with_suffix(".svg").is_file()


def test_many_different_settings_make_a_narrow_table_and_short_names(fedau, tmp_path):
    common = {"clients": 30, "alpha_data": 0.2, "alpha_participation": 0.3, "local_steps": 3}
    made_run(tmp_path / "runs/a", **common)
    made_run(tmp_path / "runs/b", **common, seed=2)
    made_run(tmp_path / "runs/c", **common, dataset="synthetic:test=100", batch_size=8)
    odd = {"reply_loss": 0.25, "draw": "authors", "augmentation": "per-batch", "lr": 0.25}
    odd |= {"mean_participation": 0.123456789, "min_participation": 0.012345678901}
    made_run(tmp_path / "runs/d", **odd, pattern="sine:period=20:amplitude=0.125")
    made_run(tmp_path / "runs/e", pattern="sine", method="fedau:7", secure_sum=True)
    result = fedau("table", "runs")
    assert result.exit_code == 0, result.output
    lines = (tmp_path / "runs/tables.md").read_text().splitlines()
    head, rows = lines[2], [line.split(" | ") for line in lines[4:8]]
    assert head == (
        "| data set | pattern | setting | method | train accuracy | test accuracy | train loss "
        "| seeds |"
    )
    settings = {row[2] for row in rows}
    assert len(settings) == 4
    assert any("batch = 8" in text and "test = 100" in text for text in settings)
    assert all(len(path.name) < 160 for path in (tmp_path / "runs").iterdir())
    assert fedau("plot", "runs", "--kinds", "curves").exit_code == 0


@pytest.mark.parametrize(("old", "new"), [("keep", "export"), ("draws", "participation-stats")])
def test_names_of_version_0_1_still_work_and_say_so(fedau, old, new):
    assert old not in fedau("--help").output.split()
    result = fedau(old, "--help")
    assert result.exit_code == 0
    result = fedau(old, *(["none", "out"] if old == "keep" else ["--seeds", "x"]))
    assert f"`fedau {old}` is deprecated: it is `fedau {new}` now." in result.output


def test_export_copies_what_can_be_published(fedau, tmp_path):
    record = participation_of([0.1] * 10, rounds=50)
    made_run(tmp_path / "runs/deep/a", participation=record, data_dir=str(tmp_path / "secret"))
    made_run(tmp_path / "runs/b", method="mifa", until=10, status="stopped")
    (tmp_path / "runs/deep/a/checkpoint.npz").touch()
    for _ in range(2):
        result = fedau("export", "runs", "kept")
        assert result.exit_code == 0, result.output
    files = {str(path.relative_to(tmp_path / "kept")) for path in (tmp_path / "kept").rglob("*.*")}
    assert {name for name in files if name.startswith("deep/a/")} == {
        f"deep/a/{name}"
        for name in ("config.toml", "metrics.jsonl", "outcome.json", "participation.npz")
    }
    assert {"tables.md", "accuracy.csv", "curves-synthetic-bernoulli.png", "report.html"} < files
    assert not any(name.endswith(".svg") or "mifa" in name or "b/" in name for name in files)
    assert "secret" not in (tmp_path / "kept/deep/a/config.toml").read_text()
    again = fedau("table", "kept", "--out", "elsewhere")
    assert again.exit_code == 0
    text = (tmp_path / "kept/tables.md").read_text()
    assert (tmp_path / "elsewhere/tables.md").read_text() == text


@pytest.mark.parametrize(("draw", "kept"), [("own", False), ("authors", True)])
def test_export_keeps_a_path_that_takes_the_data_to_know(fedau, tmp_path, draw, kept):
    made_run(tmp_path / "runs/a", draw=draw)
    (tmp_path / "runs/a/raster.bin").write_bytes(b"path")
    assert fedau("export", "runs", "kept").exit_code == 0
    assert (tmp_path / "kept/a/raster.bin").exists() == kept


def test_keep_and_table_can_show_each_seed(fedau, tmp_path):
    for seed in (1, 2):
        made_run(tmp_path / f"runs/{seed}", seed=seed)
    assert fedau("export", "runs", "kept", "--each-seed").exit_code == 0
    rows = (tmp_path / "kept/accuracy.csv").read_text().splitlines()
    assert [row.split(",")[-1] for row in rows] == ["seeds", "1", "2"]
    assert fedau("table", "kept", "--out", "same", "--each-seed").exit_code == 0
    assert (tmp_path / "same/accuracy.csv").read_text().splitlines() == rows
    assert fedau("table", "kept", "--out", "means").exit_code == 0
    assert len((tmp_path / "means/accuracy.csv").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["table", "none"], "DIR is '/"),
        (["export", "none", "kept"], "DIR is '/"),
        (["table", "empty"], "but must hold at least one run with results."),
        (["plot", "empty"], "but must hold at least one run with results."),
        (["plot", "runs", "--kinds", "pie"], "kinds has 'pie', but each must be one of curves"),
        (["plot", "runs", "--kinds", "weights"], "must have one that these runs have results for"),
        (["table", "runs", "--out", "file"], "but must be a directory that can be written to"),
        (["study", "all"], "NAME is 'all', but must be one of main"),
        (["study", "main", "--seeds", "x"], "seeds is 'x', but must be like"),
        (["study", "main", "--methods", "mifa:3"], "method mifa has the parameter '3'"),
        (["study", "main", "--dataset", "mnist"], "dataset is 'mnist', but must be one of svhn"),
        (["study", "main", "--clients", "0"], "clients is 0, but must be at least 1."),
        (["search", "--methods", "sgd"], "method is 'sgd', but must be one of"),
        (
            ["participation-stats", "--dataset", "synthetic", "--seeds", "0-x"],
            "seeds is '0-x', but must be like",
        ),
        (
            ["participation-stats", "--dataset", "svhn", "--data-dir", "empty"],
            "svhn/train-images.npy is missing",
        ),
        (["pattern", "--probability", "0"], "probability is 0, but must be in (0, 1]."),
    ],
)
def test_a_users_mistake_is_one_sentence_and_exit_code_2(fedau, tmp_path, arguments, sentence):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    made_run(tmp_path / "runs/a")
    result = fedau(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_dry_run_lists_what_is_left(fedau, tmp_path, launched):
    options = ["study", "spread", "--dataset", "synthetic", "--rounds", "10", "--seeds", "1-2"]
    assert fedau(*options, "--methods", "fedau:50").exit_code == 0
    result = fedau(*options, "--methods", "fedau:50,mifa", "--dry-run")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert lines == [
        "done synthetic-bernoulli/fedau-50-seed1 round 10 of 10",
        "run synthetic-bernoulli/mifa-seed1 10 rounds",
        "done synthetic-bernoulli/fedau-50-seed2 round 10 of 10",
        "run synthetic-bernoulli/mifa-seed2 10 rounds",
        "4 runs, 2 of them done. The others take about 1 min on this machine, undisturbed.",
    ]
    assert len(launched) == 2
    assert "no training" in fedau("study", "weights", "--dry-run").output


def test_a_study_runs_what_is_missing_then_shows_all_of_it(fedau, tmp_path, launched):
    options = ["study", "spread", "--dataset", "synthetic", "--rounds", "10", "--out", "out"]
    assert fedau(*options, "--methods", "fedau:50", "--seeds", "1").exit_code == 0
    result = fedau(*options, "--methods", "fedau:50", "--seeds", "1-2")
    assert result.exit_code == 0
    assert "1 of 2 runs are done already." in result.output
    assert [config.seed for config in launched] == [1, 2]
    assert "60.0 ± 0.0" in result.output
    assert (tmp_path / "out/curves-synthetic-bernoulli.png").is_file()


def test_studies_without_training_draw_participation(fedau, tmp_path):
    small = ["--data-dir", "data", "--dataset", "synthetic:train=300:test=60"]
    small += ["--clients", 12, "--rounds", 30]
    result = fedau("study", "weights", *small, "--pattern", "cyclic")
    assert result.exit_code == 0
    assert (
        tmp_path / "runs/study-weights/weights-synthetic-train-300-test-60-cyclic.png"
    ).is_file()


def test_draws_prints_a_row_per_seed_and_writes_it_if_asked(fedau, tmp_path):
    small = ["--dataset", "synthetic", "--data-dir", tmp_path / "data", "--seeds", "2-3"]
    result = fedau("participation-stats", *small)
    assert result.exit_code == 0, result.output
    assert "Participation by seed" in result.output
    assert {path.name for path in tmp_path.iterdir()} == {"data"}
    result = fedau("participation-stats", *small, "--out", "out")
    assert "out/draws.csv" in result.output
    rows = [line.split(",") for line in (tmp_path / "out/draws.csv").read_text().splitlines()]
    assert [row[0] for row in rows] == ["seed", "2", "3"]
    assert (tmp_path / "out/tables.md").read_text().startswith("## Participation by seed")


def test_a_search_prints_the_losses_and_the_choice(fedau, tmp_path, launched):
    result = fedau("search", "--methods", "fedau:50,fedavg", "--rounds", "10", "--out", "out")
    assert result.exit_code == 0
    assert "Training loss after round 10" in result.output
    assert len(launched) == 13 + 7
    rows = [line.split(",") for line in (tmp_path / "out/search.csv").read_text().splitlines()]
    chosen = [(row[0], row[1], row[2]) for row in rows[1:] if row[-1].startswith("chosen")]
    assert chosen == [("fedau K=50", "0.1", "1"), ("fedavg", "0.1", "none")]


def test_a_study_that_is_stopped_at_once_has_nothing_to_show(fedau, monkeypatch):
    stopped = [{"status": "stopped"}]
    monkeypatch.setattr(resumption, "run_all", lambda *arguments, where: stopped)
    result = fedau("study", "spread", "--dataset", "synthetic", "--rounds", "10")
    assert result.exit_code == 130
    assert result.stderr == ""
