import numpy as np
import pytest

from simulations.config import ConfigError
from simulations.runs.checkpoint import load_checkpoint, save_checkpoint


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    state = {
        "round": 3,
        "model": {"w": np.arange(6, dtype=np.float32).reshape(2, 3)},
        "strategy": {"ledger": {"counted": {4: 2, 17: 0}, "attempts": [(1, 1), (9, 4)]}},
        "nothing": {},
    }
    save_checkpoint(tmp_path / "c.npz", state)
    loaded = load_checkpoint(tmp_path / "c.npz")
    np.testing.assert_array_equal(loaded["model"].pop("w"), state["model"].pop("w"))
    assert loaded == {**state, "strategy": {"ledger": {"counted": {4: 2, 17: 0},
                                                       "attempts": [[1, 1], [9, 4]]}}}  # fmt: skip


def test_a_broken_checkpoint_is_named_in_one_sentence(tmp_path):
    path = tmp_path / "c.npz"
    save_checkpoint(path, {"round": 1, "x": np.zeros(1000)})
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ConfigError, match=r"c\.npz cannot be read"):
        load_checkpoint(path)
