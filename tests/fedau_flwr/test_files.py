import json
import os

import numpy as np
import pytest

from fedau_flwr.files import save_text, to_json, write_atomically


def test_what_is_no_number_is_null():
    text = to_json({"a": float("nan"), "b": np.array([1.0, np.inf]), "c": np.int64(3)})
    assert json.loads(text) == {"a": None, "b": [1.0, None], "c": 3}


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def fail(file):
        file.write(b"new")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_atomically(path, fail)
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"


def test_a_durable_file_is_on_the_disk_with_its_name_before_anybody_relies_on_it(
    tmp_path, monkeypatch
):
    synced = []

    def fsync(handle):
        synced.append((os.fstat(handle).st_ino, (tmp_path / "file").exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_atomically(tmp_path / "file", lambda file: file.write(b"text"), durable=True)
    inode = (tmp_path / "file").stat().st_ino
    assert synced == [(inode, False), (tmp_path.stat().st_ino, True)]


def test_other_files_do_not_wait_for_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", None)
    save_text(tmp_path / "file", "ä")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "ä"
