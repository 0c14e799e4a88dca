import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from flwr.app import Context, RecordDict

from fedau_flwr import WeightState
from fedau_flwr.client.state_directory import (
    StateDirectory,
    describe,
    state_directory,
    warn_if_open,
)
from fedau_flwr.client.store import ContextStore, Version, flattened
from fedau_flwr.wire.requests import Refusal


def versions():
    return [
        Version(4, 1, 11, WeightState(3, 1, 1, 2.0)),
        Version(
            7,
            2,
            11,
            WeightState(6, 2, 2, 2.0),
            memory={
                "last": {"a/b": np.arange(6, dtype=np.float32).reshape(2, 3)},
                "own": {"c": np.float64(0.5)},
            },
            sent={"update": {"a/b": np.ones((2, 3), np.float32), "c": np.float64(1.5)}},
        ),
    ]


def assert_same(left, right):
    assert [(v.round, v.attempt, v.client, v.state) for v in left] == [
        (v.round, v.attempt, v.client, v.state) for v in right
    ]
    for one, other in zip(left, right, strict=True):
        mine, others = flattened(one.arrays()), flattened(other.arrays())
        assert mine.keys() == others.keys()
        for name, value in mine.items():
            np.testing.assert_array_equal(value, others[name])


@pytest.fixture(params=["directory", "context"])
def store(request, tmp_path):
    if request.param == "directory":
        return StateDirectory(tmp_path, "client-3")
    return ContextStore(Context(1, 2, {}, RecordDict(), {}))


def test_what_is_saved_is_loaded(store):
    with store.locked("t1"):
        assert store.load("t1") == []
        store.save("t1", versions())
        assert_same(store.load("t1"), versions())
        store.save("t1", versions()[:1])
        assert_same(store.load("t1"), versions()[:1])


def test_trainings_do_not_mix(store):
    with store.locked("t1"):
        store.save("t1", versions())
    with store.locked("t2"):
        assert store.load("t2") == []


def test_files_of_dropped_versions_are_removed(tmp_path):
    store = StateDirectory(tmp_path, "client-3")
    with store.locked("t1"):
        store.save("t1", versions())
        store.save("t1", versions()[:1])
    assert sorted(os.listdir(store.folder("t1"))) == ["lock", "state.json"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda p: p.write_text(p.read_text()[: len(p.read_text()) // 2]), "content is"),
        (lambda p: p.write_text(p.read_text().replace('"version": 1', '"version": 9')), "version"),
        (lambda p: p.write_text("[]"), "version is []"),
        (lambda p: p.write_bytes(b"\xff\xfe"), "can't decode"),
        (lambda p: p.write_text(p.read_text().replace('"round": 3', '"round": 2')), "state.round"),
        (lambda p: (p.parent / "memory-7-2.npz").unlink(), "memory-7-2.npz"),
        (lambda p: (p.parent / "memory-7-2.npz").write_bytes(b"PK\x03\x04cut"), "memory-7-2.npz"),
    ],
)
def test_an_unreadable_state_is_set_aside_and_never_overwritten(tmp_path, caplog, damage, reason):
    store = StateDirectory(tmp_path, "client-3")
    folder = store.folder("t1")
    with store.locked("t1"):
        store.save("t1", versions())
        damage(folder / "state.json")
        damaged = (folder / "state.json").read_bytes()
        assert store.load("t1") == []
        assert reason in caplog.text
        store.save("t1", versions())
        damage(folder / "state.json")
        assert store.load("t1") == []
    assert (folder / "unreadable-1" / "state.json").read_bytes() == damaged
    assert (folder / "unreadable-2" / "state.json").exists()


def test_a_write_that_dies_half_way_leaves_the_old_state(tmp_path, monkeypatch):
    store = StateDirectory(tmp_path, "client-3")
    with store.locked("t1"):
        store.save("t1", versions()[:1])

        def full(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(Refusal, match=r"could not be written \(No space left on device\)"):
            store.save("t1", versions())
        assert_same(store.load("t1"), versions()[:1])


def test_two_processes_cannot_hold_the_same_state(tmp_path):
    store = StateDirectory(tmp_path, "client-3")
    attempt = (
        "import sys\n"
        "from fedau_flwr.client.state_directory import StateDirectory\n"
        "with StateDirectory(sys.argv[1], 'client-3').locked('t1'): print('held')\n"
    )
    command = [sys.executable, "-c", attempt, str(tmp_path)]
    with store.locked("t1"):
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "is in use by another process" in refused.stderr
        with StateDirectory(tmp_path, "client-4").locked("t1"):
            pass
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "held\n"


def test_a_directory_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(Refusal, match=r"fedau-state-dir is .* but must be a directory"),
        StateDirectory(tmp_path / "file", "client-3").locked("t1"),
    ):
        pass


def test_plain_words(tmp_path):
    store = StateDirectory(tmp_path, "client-3")
    with store.locked("t1"):
        store.save("t1", versions())
    (tmp_path / "t1" / "client-9").mkdir()
    (tmp_path / "t1" / "client-9" / "state.json").write_text(json.dumps({"version": 3}))
    assert list(describe(tmp_path)) == [
        "training t1, client client-3: last sent for round 4 (attempt 1), with weight 2 from 1 "
        "closed intervals and 1 rounds since the last.",
        "training t1, client client-3: last sent for round 7 (attempt 2), with weight 2 from 2 "
        "closed intervals and 2 rounds since the last, holding what it sent before.",
        "training t1, client client-9: unreadable. FedAU state: version is 3, but must be 1 or 2.",
    ]


def test_vectors_that_a_dead_process_left_are_not_taken_for_what_was_sent(tmp_path, monkeypatch):
    store = StateDirectory(tmp_path, "client-3")
    (*_, pending) = versions()
    left = dataclasses.replace(
        pending, sent={"update": {"a/b": np.zeros((2, 3)), "c": np.float64(0)}}
    )
    with store.locked("t1"):
        with monkeypatch.context() as patch:
            patch.setattr("fedau_flwr.client.state_directory.versions_to_json", _die)
            with pytest.raises(KeyboardInterrupt):
                store.save("t1", [left])
        assert store.load("t1") == []
        store.save("t1", [pending])
        assert_same(store.load("t1"), [pending])


def _die(*_):
    raise KeyboardInterrupt


def test_a_state_of_version_1_is_read(tmp_path):
    """What a client of 0.1 has on its disk, in the middle of a training with MIFA."""
    folder = tmp_path / "t1" / "client-3"
    folder.mkdir(parents=True)
    state = {"version": 1, "round": 6, "intervals": 2, "elapsed": 2, "weight": 2.0}
    entry = {"round": 7, "attempt": 2, "client": 11, "state": state, "memory": True}
    content = {"version": 1, "training": "t1", "versions": [entry]}
    (folder / "state.json").write_text(json.dumps(content))
    np.savez(folder / "memory-7-2.npz", **{"memory/a/b": np.ones(2), "sent/a/b": np.zeros(2)})
    (version,) = StateDirectory(tmp_path, "client-3").load("t1")
    np.testing.assert_array_equal(version.memory["last"]["a/b"], np.ones(2))
    np.testing.assert_array_equal(version.sent["update"]["a/b"], np.zeros(2))


def modes(root):
    return {path.stat().st_mode & 0o777 for path in root.rglob("*") if path.is_file()}


def test_nobody_else_reads_what_a_client_sent(tmp_path):
    """What MIFA's client keeps is its update itself."""
    root = tmp_path / "made" / "by us"
    store = StateDirectory(root, "client-3")
    old = os.umask(0o022)
    try:
        with store.locked("t1"):
            store.save("t1", versions())
    finally:
        os.umask(old)
    assert {"state.json", "memory-7-2.npz"} <= {path.name for path in root.rglob("*")}
    assert modes(root) == {0o600}
    folders = [root.parent, root, *(path for path in root.rglob("*") if path.is_dir())]
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}


def test_no_file_is_written_through_a_link(tmp_path):
    store = StateDirectory(tmp_path / "state", "client-3")
    others = tmp_path / "others"
    others.write_text("theirs")
    with store.locked("t1"):
        folder = store.folder("t1")
        for name in ("state.json", "memory-7-2.npz"):
            (folder / f".{name}-{os.getpid()}").symlink_to(others)
            (folder / name).symlink_to(others)
        store.save("t1", versions())
        assert_same(store.load("t1"), versions())
    assert others.read_text() == "theirs"
    (folder / "lock").unlink()
    (folder / "lock").symlink_to(others)
    with pytest.raises(Refusal, match="fedau-state-dir is"), store.locked("t1"):
        pass


def test_a_directory_that_is_open_to_others_is_named_at_each_start(tmp_path, caplog):
    root = tmp_path / "state"
    root.mkdir(mode=0o700)
    where = Context(1, 2, {"fedau-state-dir": str(root)}, RecordDict(), {})
    warn_if_open.cache_clear()
    state_directory(where)
    assert caplog.text == ""
    (root / "file").touch(mode=0o600)
    root.chmod(0o755)
    warn_if_open.cache_clear()
    state_directory(where)
    assert f"{root} (0755): chmod -R go= {root}" in caplog.text
