import numpy as np
import pytest

from fedau_flwr.secure import FixedPoint, Payload

SHAPES = ((2, 3), (), (4,))


def on_grid(fixed, scale=1.0):
    rng = np.random.default_rng(3)
    values = [np.asarray(rng.normal(0, scale, shape), np.float32) for shape in SHAPES]
    return [np.asarray(fixed.round(value, rng)[0]) for value in values]


def test_arrays_come_back_as_they_were_sent():
    payload = Payload(shapes=SHAPES, fixed_point=FixedPoint())
    sent = on_grid(payload.fixed_point)
    vector = payload.encode(sent)
    assert vector.shape == (payload.size,) == (11,)
    arrays, clipped = payload.decode(vector)
    assert clipped is None
    for array, value, shape in zip(arrays, sent, SHAPES, strict=True):
        assert array.shape == shape
        assert np.array_equal(array, value)


def test_clipped_fraction_is_reported_as_one_more_coordinate():
    fixed = FixedPoint(value_range=0.5, bits=20)
    payload = Payload(shapes=((4,),), fixed_point=fixed, report_clipping=True)
    rng = np.random.default_rng(0)
    first, clipped = fixed.round(np.array([0.1, 0.6, -0.7, 0.2]), rng)
    assert clipped == 2
    second, _ = fixed.round(np.array([0.1, 0.2, -0.7, 0.2]), rng)
    arrays, fractions = payload.decode(payload.encode([first]) + payload.encode([second]))
    assert fractions == 0.75
    assert np.array_equal(arrays[0], first + second)


def test_a_host_may_send_the_sum_of_its_clients():
    fixed = FixedPoint(value_range=1.0, bits=8)
    payload = Payload(shapes=((1,),), fixed_point=fixed)
    partial = [np.array([3.0])]
    assert payload.decode(payload.encode(partial, clients=3))[0][0] == [3.0]
    with pytest.raises(ValueError, match="not on the grid"):
        payload.encode(partial, clients=2)


def test_other_shapes_are_refused():
    payload = Payload(shapes=SHAPES, fixed_point=FixedPoint())
    with pytest.raises(ValueError, match="agreed shapes"):
        payload.encode(on_grid(payload.fixed_point)[:2])
