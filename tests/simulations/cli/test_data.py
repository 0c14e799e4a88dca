from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from simulations.cli.app import register

app = typer.Typer()
register(app)


def run(*arguments):
    return CliRunner().invoke(app, ["data", "prepare", *map(str, arguments)])


def test_prepare_makes_the_synthetic_set(tmp_path):
    result = run("synthetic", "--data-dir", tmp_path, "--seed", 7)
    assert result.exit_code == 0, result.output
    folder = Path(result.output.split(" are in ")[1].strip())
    assert folder == tmp_path / "synthetic" / "seed7-25000-5000"
    assert np.load(folder / "train-images.npy", mmap_mode="r").shape == (25_000, 32, 32, 3)
    assert "25000 training and 5000 test samples" in result.output


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("mnist",), "dataset is 'mnist', but must be one of svhn, cifar10"),
        (("cinic10", "--from", "/nowhere"), "/nowhere does not hold the folders train"),
        (("synthetic", "--from", "/nowhere"), "--from is /nowhere, but the synthetic set"),
    ],
)
def test_a_users_mistake_is_one_sentence_and_exit_code_2(tmp_path, arguments, sentence):
    result = run(*arguments, "--data-dir", tmp_path)
    assert result.exit_code == 2
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    result = run("synthetic", "--data-dir", tmp_path / "file" / "data")
    assert result.exit_code == 2
    assert "file/data cannot be written" in result.stderr


def test_the_default_folder_is_in_the_users_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run("synthetic").exit_code == 0
    assert (tmp_path / "fedau" / "data" / "synthetic").is_dir()
