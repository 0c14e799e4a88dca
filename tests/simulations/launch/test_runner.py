import pytest

from simulations.config import ConfigError
from simulations.launch import runner


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
