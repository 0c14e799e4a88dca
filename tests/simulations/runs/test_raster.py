import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simulations.runs.raster import RasterFile, pack, states_of, unpack

RASTERS = st.tuples(st.integers(0, 9), st.integers(1, 13)).flatmap(
    lambda shape: arrays(np.uint8, shape, elements=st.integers(0, 3))
)


@given(RASTERS)
def test_packing_loses_nothing(states):
    packed = pack(states)
    assert packed.shape == (len(states), -(-states.shape[1] // 4))
    np.testing.assert_array_equal(unpack(packed.tobytes(), states.shape[1]), states)


def test_a_file_grows_goes_back_and_becomes_wider(tmp_path):
    path = tmp_path / "raster.bin"
    states = np.random.default_rng(1).integers(0, 4, (7, 5)).astype(np.uint8)
    file = RasterFile(path, 5)
    file.begin(0)
    for row in states:
        file.append(row)
    assert RasterFile.open(path).rounds == 7
    resumed = RasterFile(path, 5)
    resumed.begin(4)
    np.testing.assert_array_equal(unpack(resumed.packed(1, 9), 5), states[:4])
    np.testing.assert_array_equal(unpack(resumed.packed(3, 3), 5), states[2:3])
    resumed.widen(9)
    resumed.append(np.full(9, 2, np.uint8))
    later = RasterFile(path, 5)
    later.begin(5)
    assert (later.clients, later.rounds) == (9, 5)
    seen = unpack(later.packed(1, 5), 9)
    np.testing.assert_array_equal(seen[:4, :5], states[:4])
    np.testing.assert_array_equal(seen[4], 2)
    assert not seen[:4, 5:].any()


def test_rounds_that_nobody_wrote_down_are_empty(tmp_path):
    file = RasterFile(tmp_path / "raster.bin", 6)
    file.begin(3)
    file.append(np.full(6, 3, np.uint8))
    np.testing.assert_array_equal(unpack(file.packed(1, 4), 6).sum(axis=1), [0, 0, 0, 18])


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "raster.bin"
    for content in (b"", b"FEDAU\0\0\2abcd"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"^raster\.bin is not a raster of this version\.$"):
            RasterFile.open(path)


def test_states_say_the_most_that_is_known():
    came = np.array([0, 2, 3])
    states = states_of(5, came=came, rejected=[2, 3], counted=[3])
    assert states.tolist() == [1, 0, 2, 3, 0]
