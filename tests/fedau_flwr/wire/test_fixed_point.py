import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedau_flwr.privacy.generator import SecureGenerator
from fedau_flwr.secure import FixedPoint

FORMATS = st.builds(
    FixedPoint,
    value_range=st.floats(0.001, 1000),
    bits=st.integers(4, 24),
    ring_bits=st.sampled_from([32, 64]),
    max_cohort=st.integers(2, 60),
).filter(lambda fixed: fixed.value_range > 2 * fixed.step)


@given(FORMATS, arrays(np.float32, st.integers(1, 30), elements=st.floats(-2000, 2000, width=32)))
def test_rounding_stays_within_a_step_and_counts_what_it_clips(fixed, values):
    grid, clipped = fixed.round(values, np.random.default_rng(0))
    wide = values.astype(np.float64)
    assert clipped == np.count_nonzero(np.abs(wide) > fixed.value_range)
    inside = np.clip(wide, -fixed.top * fixed.step, fixed.top * fixed.step)
    assert np.abs(grid - inside).max() < fixed.step
    assert grid.dtype == np.float32


@given(FORMATS, arrays(np.float64, st.integers(1, 30), elements=st.floats(-2000, 2000)))
def test_grid_values_pass_rounding_and_the_ring_unchanged(fixed, values):
    grid, _ = fixed.round(values, np.random.default_rng(1))
    again, clipped = fixed.round(grid, np.random.default_rng(2))
    assert clipped == 0
    assert np.array_equal(again, grid)
    ring = fixed.to_ring(grid)
    assert ring.dtype == (np.uint32 if fixed.ring_bits == 32 else np.uint64)
    assert np.array_equal(fixed.from_ring(ring), grid)


def test_largest_cohort_of_largest_values_does_not_overflow():
    fixed = FixedPoint(value_range=8.0, bits=22, max_cohort=1023)
    for sign in (1, -1):
        ring = fixed.to_ring(np.array([8.0 * sign]))
        total = np.zeros(1, np.uint32)
        for _ in range(1023):
            total += ring
        assert fixed.from_ring(total) == [8.0 * sign * 1023]


def test_a_setting_that_could_overflow_is_refused_with_the_arithmetic():
    with pytest.raises(ValueError, match=r"max_cohort=1024 .* 2097152 steps sum to 2147483648, "):
        FixedPoint(value_range=8.0, bits=22, max_cohort=1024)
    assert FixedPoint(value_range=8.0, bits=22, max_cohort=1024, ring_bits=64).top == 2**21


@pytest.mark.parametrize(
    "options",
    [
        {"value_range": 0.0},
        {"value_range": float("nan")},
        {"bits": 1},
        {"bits": 26},
        {"bits": 54, "ring_bits": 64},
        {"ring_bits": 16},
        {"max_cohort": 1},
    ],
)
def test_impossible_settings_are_refused_by_name(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} is "):
        FixedPoint(**options)


def test_rounding_is_unbiased_and_repeats_with_its_seed():
    fixed = FixedPoint(value_range=1.0, bits=4)
    values = np.full(200_000, 0.3 * fixed.step)
    grid, _ = fixed.round(values, np.random.default_rng(5))
    again, _ = fixed.round(values, np.random.default_rng(5))
    assert np.array_equal(grid, again)
    assert set(np.unique(grid)) == {0.0, fixed.step}
    # Five standard deviations of the mean of 200,000 Bernoulli(0.3) draws.
    assert abs(grid.mean() / fixed.step - 0.3) < 5 * np.sqrt(0.21 / 200_000)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(bad):
    with pytest.raises(ValueError, match="not finite"):
        FixedPoint().round(np.array([0.0, bad]), np.random.default_rng(0))


def test_values_off_the_grid_do_not_reach_the_ring():
    fixed = FixedPoint()
    for value in (fixed.step / 2, 9.0):
        with pytest.raises(ValueError, match="not on the grid"):
            fixed.to_ring(np.array([value]))


def test_noise_is_on_the_grid_and_has_the_variance_asked_for():
    fixed = FixedPoint()
    grid = np.full(100_000, 0.25, np.float32)
    noisy, pushed = fixed.add_noise(grid, 0.1, SecureGenerator())
    assert pushed == 0
    assert noisy.dtype == np.float32
    assert np.array_equal(fixed.from_ring(fixed.to_ring(noisy)), noisy)
    noise = noisy - 0.25
    # The variance of 100,000 squared normal values: five standard deviations.
    assert abs(noise.var() / 0.01 - 1) < 5 * np.sqrt(2 / 100_000)
    assert abs(noise.mean()) < 5 * 0.1 / np.sqrt(100_000)


def test_noise_that_leaves_the_range_is_counted():
    fixed = FixedPoint(value_range=1.0, bits=20)
    noisy, pushed = fixed.add_noise(np.full(10_000, 0.9), 1.0, SecureGenerator())
    assert pushed == np.count_nonzero(np.abs(noisy) == 1.0) > 1000


def test_noise_below_the_grid_is_refused():
    with pytest.raises(ValueError, match=r"noise is 0.5, but must be at least four steps"):
        FixedPoint(value_range=8.0, bits=4).add_noise(np.zeros(1), 0.5, SecureGenerator())
