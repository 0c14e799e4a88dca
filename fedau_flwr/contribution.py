"""What a client sends: its update, weighted before it leaves.

Updates travel in at least float32: a float16 update times a weight of 50 overflows easily,
and its small components are lost. Integer and bool arrays (batch counters, masks) are no
part of an average; zeros of the same shape stand in for them and the server ignores them.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.lib import format as npy
from numpy.typing import NDArray

from .protocol import Refusal
from .store import Arrays

_NUMPY = "numpy.ndarray"
"""How Flower calls the format of a numpy file."""


def decode(array: Array) -> NDArray[Any]:
    """Return a Flower array as numpy; bfloat16, which numpy lacks, becomes float32."""
    value = array.numpy()
    if value.dtype.kind == "V" and value.dtype.itemsize == 2 and array.dtype == "bfloat16":
        return (value.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return value


def decode_all(record: ArrayRecord) -> Arrays:
    """Return the arrays of a record by name."""
    return {name: decode(array) for name, array in record.items()}


def encode(arrays: Mapping[str, NDArray[Any]]) -> ArrayRecord:
    """Return arrays as a Flower record."""
    return ArrayRecord({name: _encoded(np.asarray(value)) for name, value in arrays.items()})


def _encoded(value: NDArray[Any]) -> Array:
    """Return Flower's ``Array(value)`` to the last byte, made with one copy instead of three."""
    if not value.flags.c_contiguous:
        return Array(value)
    header = BytesIO()
    npy.write_array_header_1_0(header, npy.header_data_from_array_1_0(value))
    return Array(
        dtype=str(value.dtype),
        shape=value.shape,
        stype=_NUMPY,
        data=b"".join((header.getvalue(), value.data)),
    )


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
