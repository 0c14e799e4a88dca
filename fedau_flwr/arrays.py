"""Arithmetic on named arrays.

Updates travel and are summed in at least float32: a float16 update times a weight of 50 overflows
easily, and its small components are lost. Integer and bool arrays (batch counters, masks) are no
part of an average.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


def is_averaged(dtype: np.dtype[Any]) -> bool:
    """Return whether arrays of this type take part in the average."""
    return dtype.kind == "f"


def wire_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which updates of an array of type `dtype` travel and are summed."""
    return np.promote_types(dtype, np.float32) if is_averaged(dtype) else dtype


def is_finite(value: NDArray[Any]) -> bool:
    """Return whether all numbers are finite, mostly in one pass that makes no array.

    A square is not finite where its number is not; where squares are too large, numbers are looked
    at one by one.
    """
    return math.isfinite(np.vdot(value, value)) or bool(np.isfinite(value).all())


def scaled(update: Arrays, factor: float) -> Arrays:
    """Return `factor · Δ`."""
    if factor == 1.0:
        return update
    with np.errstate(invalid="ignore", over="ignore"):
        return {n: np.asarray(v * v.dtype.type(factor)) for n, v in update.items()}


def difference(update: Arrays, memory: Arrays | None) -> Arrays:
    """Return `Δ − y`, where no `y` is 0."""
    if not memory:
        return update
    with np.errstate(invalid="ignore", over="ignore"):
        return {name: value - memory[name] for name, value in update.items()}


def added(memory: Arrays | None, change: Arrays) -> Arrays:
    """Return `y + c`, where no `y` is 0."""
    if not memory:
        return change
    return {name: memory[name] + value for name, value in change.items()}


def zeros(model: Arrays) -> Arrays:
    """Return zeros in the shape of a model's averaged arrays and in the type of updates."""
    return {
        name: np.zeros(value.shape, wire_dtype(value.dtype))
        for name, value in model.items()
        if is_averaged(value.dtype)
    }


def moved(model: Arrays, direction: Arrays, rate: float) -> Arrays:
    """Return `model + rate · direction`, every array in its own type."""
    result = {}
    for name, value in model.items():
        if not is_averaged(value.dtype):
            result[name] = value
            continue
        wide = wire_dtype(value.dtype)
        step = np.asarray(direction[name].astype(wide, copy=False) * wide.type(rate))
        np.add(value.astype(wide, copy=False), step, out=step)
        result[name] = step.astype(value.dtype, copy=False)
    return result
