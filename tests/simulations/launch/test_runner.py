import pytest

from simulations.config import ConfigError, RunConfig
from simulations.launch import runner
from simulations.tasks import DataError


def test_a_directory_that_can_be_made_is_left_unmade(tmp_path):
    runner.check_writable("out", tmp_path / "deep" / "down")
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"^out is '.*/file/x', but must be .*/file is no dir"):
        runner.check_writable("out", tmp_path / "file" / "x")


def test_a_directory_that_may_not_be_written_to_is_named(tmp_path, monkeypatch):
    # Who runs the tests may be allowed everything.
    monkeypatch.setattr(runner.os, "access", lambda path, mode: path != tmp_path)
    with pytest.raises(ConfigError, match=r"^out is '.*/x', but must be .* is not writable\)\.$"):
        runner.check_writable("out", tmp_path / "x")


def test_native_steps_that_cannot_be_had_are_refused_before_anything_starts(tmp_path):
    config = RunConfig(kernel="native", data_dir=str(tmp_path), run_dir=str(tmp_path / "run"))
    sentence = r"^kernel is 'native', but must be auto or torch: the native step is for the paper's"
    with pytest.raises(DataError, match=sentence):
        runner.check(config)
    assert not (tmp_path / "run").exists()
