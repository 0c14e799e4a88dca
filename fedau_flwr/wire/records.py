"""Numpy arrays as Flower records and back, without the copies that Flower makes."""

import math
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..arrays import Arrays

_NUMPY = "numpy.ndarray"
"""How Flower calls the format of a numpy file."""
_LENGTH_END = 10
"""Where the header of a numpy file begins, after magic, version and the header's length."""
_LONGEST = 1024
"""Bytes of a header that is worth remembering; those of strangers must not fill the memory."""


def decode(array: Array) -> NDArray[Any]:
    """Return a Flower array as numpy; bfloat16, which numpy lacks, becomes float32.

    The result may be read-only: it is a view of the bytes that arrived, not a copy.
    """
    value = _view(array)
    if value.dtype.kind == "V" and value.dtype.itemsize == 2 and array.dtype == "bfloat16":
        return (value.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return value


def _view(array: Array) -> NDArray[Any]:
    """Return what Flower's ``array.numpy()`` does without its copies, wherever that is possible."""
    data = array.data
    start = _LENGTH_END + int.from_bytes(data[_LENGTH_END - 2 : _LENGTH_END], "little")
    known = array.stype == _NUMPY and start <= _LONGEST
    header = _header(bytes(data[:start])) if known else None
    if header is None:
        return array.numpy()
    shape, fortran, dtype = header
    count = math.prod(shape)
    if len(data) != start + count * dtype.itemsize:
        return array.numpy()
    flat: NDArray[Any] = np.frombuffer(data, dtype, count, start)
    return flat.reshape(shape, order="F" if fortran else "C")


def decode_exactly(array: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return an array of this shape and type; whatever else its sender put there is not touched."""
    name, header = _written(shape, dtype)
    size = len(header) + math.prod(shape) * dtype.itemsize
    data = array.data
    if array.stype != _NUMPY or len(data) != size or data[: len(header)] != header:
        raise ValueError(f"not an array of shape {shape} and type {name}")
    return np.frombuffer(data, dtype, math.prod(shape), len(header)).reshape(shape)


@lru_cache(maxsize=4096)
def _header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]] | None:
    """Return shape, order and type from the beginning of a numpy file, None if it is unusual.

    A model's headers are the same in every round, and to read one takes longer than a small array.
    """
    stream = BytesIO(data)
    try:
        if npy.read_magic(stream) != (1, 0):
            return None
        shape, fortran, dtype = npy.read_array_header_1_0(stream)
    except ValueError:
        return None
    return None if dtype.hasobject else (shape, fortran, dtype)


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
    name, header = _written(value.shape, value.dtype)
    data = b"".join((header, value.data))
    return Array(dtype=name, shape=value.shape, stype=_NUMPY, data=data)


@lru_cache(maxsize=4096)
def _written(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[str, bytes]:
    """Return the name of a type and the header of the numpy file of a contiguous array."""
    header = BytesIO()
    npy.write_array_header_1_0(header, npy.header_data_from_array_1_0(np.empty(shape, dtype)))
    return str(dtype), header.getvalue()
