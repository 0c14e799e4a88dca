import numpy as np
import pytest

from fedau_flwr.secure import FixedPoint, Payload

SHAPES = ((2, 3), (), (4,))


def contribution(scale=1.0):
    rng = np.random.default_rng(3)
    return [np.asarray(rng.normal(0, scale, shape), np.float32) for shape in SHAPES]


def test_what_is_remembered_as_sent_is_what_the_sum_holds():
    payload = Payload(shapes=SHAPES, fixed_point=FixedPoint())
    encoded = payload.encode(contribution(), np.random.default_rng(0))
    arrays, clipped = payload.decode(encoded.vector)
    assert clipped is None
    assert encoded.clipped == 0.0
    assert encoded.vector.shape == (11,)
    for sent, back, shape in zip(encoded.sent, arrays, SHAPES, strict=True):
        assert back.shape == sent.shape == shape
        assert np.array_equal(back, sent)


def test_clipped_fraction_is_reported_as_one_more_coordinate():
    payload = Payload(
        shapes=((4,),), fixed_point=FixedPoint(value_range=0.5, bits=20), report_clipping=True
    )
    rng = np.random.default_rng(0)
    first = payload.encode([np.array([0.1, 0.6, -0.7, 0.2])], rng)
    second = payload.encode([np.array([0.1, 0.2, -0.7, 0.2])], rng)
    assert (first.clipped, second.clipped) == (0.5, 0.25)
    arrays, clipped = payload.decode(first.vector + second.vector)
    assert clipped == 0.75
    assert np.allclose(arrays[0], [0.2, 0.7, -1.0, 0.4], atol=2 * payload.fixed_point.step)


def test_noise_is_on_the_grid_and_has_the_variance_asked_for():
    payload = Payload(shapes=((100_000,),), fixed_point=FixedPoint())
    value = np.full(100_000, 0.25, np.float32)
    encoded = payload.encode([value], np.random.default_rng(0), noise_std=0.1)
    noise = encoded.sent[0] - 0.25
    assert np.array_equal(payload.decode(encoded.vector)[0][0], encoded.sent[0])
    # The variance of 100,000 squared normal values: five standard deviations.
    assert abs(noise.var() / 0.01 - 1) < 5 * np.sqrt(2 / 100_000)
    assert abs(noise.mean()) < 5 * 0.1 / np.sqrt(100_000)


def test_noise_below_the_grid_is_refused():
    payload = Payload(shapes=((1,),), fixed_point=FixedPoint(value_range=8.0, bits=4))
    with pytest.raises(ValueError, match=r"noise_std=0.5 must be at least four steps"):
        payload.encode([np.zeros(1)], np.random.default_rng(0), noise_std=0.5)


def test_other_shapes_are_refused_and_the_repr_keeps_the_values():
    payload = Payload(shapes=SHAPES, fixed_point=FixedPoint())
    with pytest.raises(ValueError, match="agreed shapes"):
        payload.encode(contribution()[:2], np.random.default_rng(0))
    encoded = payload.encode(contribution(), np.random.default_rng(0))
    assert repr(encoded) == "Encoded(size=11, clipped=0.0)"
