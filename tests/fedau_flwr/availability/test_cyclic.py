import numpy as np
import pytest
from scipy import stats

from fedau_flwr.availability import Cyclic

P = np.array([1e-16, 0.02, 0.1, 0.527, 0.994, 1.0])


@pytest.mark.parametrize("variant", ["random-offset", "starts-inactive"])
def test_duty_is_exact_in_every_full_period(variant):
    process = Cyclic(np.tile(P, 20), seed=1, variant=variant)
    path = np.array([process.active(t) for t in range(300)])
    duty = np.tile([1, 2, 10, 53, 99, 100], 20)
    for start in (0, 37, 200):
        full = path[start : start + 100]
        np.testing.assert_array_equal(full.sum(axis=0), duty)
    np.testing.assert_array_equal(process.probability, duty / 100)
    # One stretch per cycle: at most one switch from off to on, the cycle's seam included.
    switches = (path[1:101] & ~path[:100]).sum(axis=0)
    np.testing.assert_array_equal(switches, np.tile([1, 1, 1, 1, 1, 0], 20))


def test_random_offset_is_uniform_over_the_period():
    # Pooled over seeds and tested once: single seeds or rounds would each add a chance to fail.
    counts = np.zeros(10, dtype=int)
    for seed in range(20):
        process = Cyclic(np.full(20_000, 0.3), seed=seed, period=10)
        counts += np.bincount(process.first_active, minlength=10)
    assert stats.chisquare(counts).pvalue > 0.001
    for t in range(10):
        since_start = np.array([t, t + 9, t + 8]) % 10
        np.testing.assert_array_equal(process.active(t), np.isin(process.first_active, since_start))


def test_starts_inactive_begins_its_first_stretch_at_one_of_the_inactive_rounds():
    process = Cyclic(np.full(20_000, 0.3), seed=2, period=10, variant="starts-inactive")
    path = np.array([process.active(t) for t in range(10)])
    first = path.argmax(axis=0)
    assert stats.chisquare(np.bincount(first, minlength=7)).pvalue > 0.001
    assert first.max() == 6
    np.testing.assert_array_equal(path.sum(axis=0), 3)


def test_unknown_variant_and_period_are_named():
    with pytest.raises(ValueError, match=r"^variant is 'x', but must be 'random-offset' or"):
        Cyclic([0.5], seed=1, variant="x")
    with pytest.raises(ValueError, match=r"^period is 0, but must be "):
        Cyclic([0.5], seed=1, period=0)
