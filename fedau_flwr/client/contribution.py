"""What a client sends: its update, weighted before it leaves.

Updates travel in at least float32: a float16 update times a weight of 50 overflows easily,
and its small components are lost. Integer and bool arrays (batch counters, masks) are no
part of an average; zeros of the same shape stand in for them and the server ignores them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..wire.requests import Refusal
from .store import Arrays


def is_averaged(dtype: np.dtype[Any]) -> bool:
    """Return whether arrays of this type take part in the average."""
    return dtype.kind == "f"


def wire_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which updates of an array of type `dtype` travel and are summed."""
    return np.promote_types(dtype, np.float32) if is_averaged(dtype) else dtype


def local_update(before: Arrays, after: Arrays) -> Arrays:
    """Return `Δ = y − x` for every averaged array.

    An update that does not have the model's names and shapes is refused here, on the client.
    """
    if before.keys() != after.keys():
        odd = sorted(before.keys() ^ after.keys())
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
        if not is_averaged(start.dtype):
            if start.dtype.kind not in "biu":
                raise Refusal(
                    f"Array {name!r} has type {start.dtype}, but must be float, integer or bool."
                )
            continue
        wide = wire_dtype(start.dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            update[name] = np.subtract(end, start, dtype=wide, casting="unsafe")
    return update


def scaled(update: Arrays, factor: float) -> Arrays:
    """Return `factor · Δ`."""
    if factor == 1.0:
        return update
    with np.errstate(invalid="ignore", over="ignore"):
        return {name: value * value.dtype.type(factor) for name, value in update.items()}


def difference(update: Arrays, memory: Arrays | None) -> Arrays:
    """Return `c = Δ − y`, what a client of MIFA or FedVARP contributes."""
    if not memory:
        return update
    with np.errstate(invalid="ignore", over="ignore"):
        return {name: value - memory[name] for name, value in update.items()}


def check_finite(contribution: Arrays) -> None:
    """Refuse to send what the server could not add."""
    for name, value in contribution.items():
        if not np.isfinite(value).all():
            raise Refusal(f"The update of array {name!r} is not finite, so it is not sent.")


def with_placeholders(contribution: Arrays, model: Arrays) -> Arrays:
    """Return the contribution in the model's order, zeros for arrays that are not averaged."""
    extra = {name: value for name, value in contribution.items() if name not in model}
    return {
        name: contribution[name] if name in contribution else np.zeros_like(value)
        for name, value in model.items()
    } | extra
