"""Arrays as Flower records."""

import numpy as np
import pytest
from flwr.app import Array

from fedau_flwr.contribution import decode_all, encode

VALUES = {
    "scalar": np.float32(2.5),
    "no values": np.zeros((0, 3)),
    "two dimensions": np.arange(6.0).reshape(2, 3),
    "transposed": np.arange(6).reshape(2, 3).T,
    "every second": np.arange(8, dtype=np.float32)[::2],
    "half precision": np.ones((2, 3), np.float16),
    "bool": np.array([True, False]),
    "other byte order": np.arange(3, dtype=">f4"),
    "read-only": np.frombuffer(b"\x00" * 8, np.float64),
}


@pytest.mark.parametrize("name", VALUES)
def test_encoding_is_flowers_own_to_the_last_byte(name):
    value = np.asarray(VALUES[name])
    ours, flowers = encode({name: value})[name], Array(value)
    for field in ("dtype", "shape", "stype", "data"):
        assert getattr(ours, field) == getattr(flowers, field), field
    decoded = decode_all(encode({name: value}))[name]
    assert decoded.dtype == value.dtype
    np.testing.assert_array_equal(decoded, value)
