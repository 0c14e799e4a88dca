import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fedau_flwr import WeightState
from fedau_flwr.cli import app
from fedau_flwr.client.state_directory import StateDirectory
from fedau_flwr.client.store import Version


def test_shows_state_in_plain_words(tmp_path):
    store = StateDirectory(tmp_path, "client-3")
    with store.locked("t1"):
        store.save("t1", [Version(4, 1, 9, WeightState(3, 1, 1, 2.0))])
    result = CliRunner().invoke(app, ["state", "show", str(tmp_path)])
    assert result.exit_code == 0
    assert "client client-3: last sent for round 4" in result.output


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("missing", "must be an existing directory."), ("", "must hold the state of at least one")],
)
def test_directories_without_state(tmp_path, name, sentence):
    result = CliRunner().invoke(app, ["state", "show", str(tmp_path / name)])
    assert result.exit_code == 2
    assert sentence in result.output


def test_without_a_clone_the_suite_is_named_in_one_sentence(tmp_path):
    """As from a wheel: the package somewhere on the path, no clone but another project around."""
    import shutil
    from pathlib import Path

    import fedau_flwr

    shutil.copytree(
        Path(fedau_flwr.__file__).parent,
        tmp_path / "site" / "fedau_flwr",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (tmp_path / "simulations" / "cli").mkdir(parents=True)
    (tmp_path / "simulations" / "cli" / "app.py").write_text("raise SystemExit('not ours')")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\n')
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "from fedau_flwr.cli import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-P", "-c", script, "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert result.stderr == (
        "`fedau run` belongs to the simulation suite, which is used from a clone of the "
        "fedau-flwr repository: run it there.\n"
    )


def test_the_price_of_privacy_is_that_of_the_formulas():
    options = ["--rounds", "2000", "--epsilon", "8", "--separation", "50"]
    result = CliRunner().invoke(app, ["privacy", *options])
    assert result.exit_code == 0
    rows = {line[:20].strip(): line[20:].split() for line in result.output.splitlines()}
    assert rows["plain"][:2] == ["2000", "26.843"]
    assert rows["separated"][:2] == ["40", "3.796"]
    independent = float(rows["separated"][2])
    assert float(rows["correlated, bands"][2]) / independent == pytest.approx(0.1873, abs=1e-3)
    assert float(rows["correlated, buffers"][2]) <= float(rows["correlated, bands"][2])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--epsilon 8 --noise-multiplier 10", "rounds: 277"),
        ("--epsilon 8 --noise-multiplier 10 --separation 3", "rounds: 831"),
        ("--epsilon 8 --noise-multiplier 3.8 --rounds 2000", "separation: 50"),
        ("--epsilon 8 --noise-multiplier 3.796 --rounds 2000 --separation 50", "delta: 1e-05"),
    ],
)
def test_what_is_not_given_follows(options, expected):
    result = CliRunner().invoke(app, ["privacy", *options.split()])
    assert result.exit_code == 0
    assert result.output.splitlines()[0] == expected


def test_the_noise_on_a_mean_needs_the_population():
    options = ["--epsilon", "8", "--rounds", "20", "--population", "1000"]
    result = CliRunner().invoke(app, ["privacy", *options])
    head, plain, *_ = result.output.splitlines()
    assert head.endswith("noise on mean")
    assert float(plain.split()[-1]) == pytest.approx(float(plain.split()[2]) / 1000, rel=1e-2)


def test_pictures_and_tables_of_effective_noise(tmp_path):
    options = ["--epsilon", "8", "--rounds", "60", "--separations", "1,5,90", "--plot"]
    result = CliRunner().invoke(app, ["privacy", *options, str(tmp_path / "noise.png"), "--csv",
                                      str(tmp_path / "noise.csv")])  # fmt: skip
    assert result.exit_code == 0
    assert (tmp_path / "noise.png").read_bytes().startswith(b"\x89PNG")
    head, *rows = (tmp_path / "noise.csv").read_text().splitlines()
    assert head == "separation,noise,vectors,noise multiplier,relative error,effective noise"
    assert {row.split(",")[0] for row in rows} == {"1", "5"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ([], "two of --epsilon, --noise-multiplier and --rounds must be given."),
        (["--epsilon", "1", "--noise-multiplier", "0.1"], "noise_multiplier is 0.1, but must be"),
        (["--epsilon", "1", "--csv", "x.csv", "--separations", "2,x"], "separations is '2,x', but"),
        (["--epsilon", "1", "--csv", "/no/such/place.csv"], "/no/such/place.csv cannot be written"),
        (["--epsilon", "-1"], "epsilon is -1.0, but must be"),
        (["--epsilon", "1", "--delta", "2"], "delta is 2.0, but must be"),
        (["--noise-multiplier", "0"], "noise_multiplier is 0.0, but must be"),
    ],
)
def test_an_impossible_guarantee_is_refused_in_a_sentence(options, sentence):
    result = CliRunner().invoke(app, ["privacy", "--rounds", "10", *options])
    assert result.exit_code == 2
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1
