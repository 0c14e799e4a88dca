"""Checkpoints: the model, the strategy's own state and what the round loop has counted.

One ``.npz`` file without pickles: nested values are JSON, in which an array is a reference to an
entry of the file.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simulations.config import ConfigError
from simulations.runs.directory import save_arrays

_ARRAY = "__array__"
_PAIRS = "__pairs__"


def save_checkpoint(path: Path, state: Mapping[str, Any]) -> None:
    """Replace the checkpoint at `path` once the new one is safe on the disk."""
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps(_pack(state, arrays))
    save_arrays(path, {**arrays, "state": np.array(text)}, durable=True)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return _unpack(json.loads(str(file["state"])), file)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ConfigError(f"The checkpoint {path} cannot be read: {error}.") from None


def _pack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        name = f"array-{len(arrays)}"
        arrays[name] = value
        return {_ARRAY: name}
    if isinstance(value, Mapping):
        # JSON has no other keys than texts, and a ledger counts clients by number.
        return {_PAIRS: [[key, _pack(item, arrays)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return [_pack(item, arrays) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _unpack(value: Any, arrays: Any) -> Any:
    if isinstance(value, dict):
        if _ARRAY in value:
            return arrays[value[_ARRAY]]
        return {key: _unpack(item, arrays) for key, item in value[_PAIRS]}
    return [_unpack(item, arrays) for item in value] if isinstance(value, list) else value
