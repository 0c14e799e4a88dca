"""A client's local update, checked before anything is made of it or leaves."""

from __future__ import annotations

import numpy as np

from ..arrays import Arrays, is_averaged, wire_dtype
from ..wire.parts import Parts
from ..wire.requests import Refusal


def local_update(before: Arrays, after: Arrays) -> Arrays:
    """Return `Δ = y − x` of every averaged array; other names or shapes than before are refused."""
    if odd := sorted(before.keys() ^ after.keys()):
        raise Refusal(
            f"The reply's arrays differ from the model's in {odd}, but must have the same names."
        )
    update = {}
    for name, start in before.items():
        end = after[name]
        if end.shape != start.shape:
            raise Refusal(
                f"Array {name!r} has shape {end.shape}, but must keep the model's {start.shape}."
            )
        if is_averaged(start.dtype):
            with np.errstate(invalid="ignore", over="ignore"):
                update[name] = np.subtract(
                    end, start, dtype=wire_dtype(start.dtype), casting="unsafe"
                )
        elif start.dtype.kind not in "biu":
            raise Refusal(
                f"Array {name!r} has type {start.dtype}, but must be float, integer or bool."
            )
    return update


def check_finite(parts: Parts) -> None:
    """Refuse to send what the server could not add."""
    for arrays in parts.values():
        for name, value in arrays.items():
            if not np.isfinite(value).all():
                raise Refusal(f"The update of array {name!r} is not finite, so it is not sent.")
