"""Arrays as Flower records."""

from io import BytesIO

import numpy as np
import pytest
from flwr.app import Array

from fedau_flwr.wire.records import decode, decode_all, encode

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


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_decoding_is_flowers_own(name, version):
    file = BytesIO()
    np.lib.format.write_array(file, np.asarray(VALUES[name]), version=version)
    array = Array("", (), "numpy.ndarray", file.getvalue())
    ours, flowers = decode(array), array.numpy()
    assert (ours.dtype, ours.shape) == (flowers.dtype, flowers.shape)
    assert ours.flags.f_contiguous == flowers.flags.f_contiguous
    np.testing.assert_array_equal(ours, flowers)


def pickled():
    file = BytesIO()
    np.save(file, np.array([None, {}]), allow_pickle=True)
    return file.getvalue()


GOOD = encode({"a": np.arange(6.0)})["a"].data
BROKEN = {
    "nothing": b"",
    "no numpy file": b"\x00" * 200,
    "ends in the header": GOOD[:40],
    "ends in the values": GOOD[:-5],
    "no header": GOOD[:10] + b"?" * (len(GOOD) - 10),
    "negative shape": GOOD.replace(b"(6,)", b"(-6)"),
    "objects": pickled(),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_flower_cannot_decode_we_cannot_either(name):
    array = Array("float64", (6,), "numpy.ndarray", BROKEN[name])
    with pytest.raises(Exception, match=r".") as flowers:
        array.numpy()
    with pytest.raises(Exception, match=r".") as ours:
        decode(array)
    assert (type(ours.value), str(ours.value)) == (type(flowers.value), str(flowers.value))


def test_another_format_is_named_as_flower_names_it():
    with pytest.raises(TypeError, match="Unsupported serialization type"):
        decode(Array("float64", (6,), "other", GOOD))
