"""Run configs of version 0.1, in which every key was one of the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MOVED = {
    "cutoff": ("method", "fedau", "cutoff", 50),
    "trace": ("pattern", "trace", "file", ""),
    "train-samples": ("dataset", "synthetic", "train", 0),
    "test-samples": ("dataset", "synthetic", "test", 0),
}
"""Keys of version 0.1: what they are a parameter of today, and the value that meant its default."""


def translated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run config of version 0.1 with today's keys; today's own stays as it is."""
    values = dict(values)
    old = {key: values.pop(key) for key in list(values) if key in _MOVED}
    if values.get("pattern") == "real":
        values["pattern"] = "deployment"
    for key, (kind, name, parameter, unset) in _MOVED.items():
        given, text = old.get(key, unset), values.get(kind, name)
        if given != unset and isinstance(text, str) and text.split(":")[0] == name:
            values[kind] = f"{text}:{parameter}={given}"
    return values
