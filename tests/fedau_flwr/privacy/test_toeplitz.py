from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import toeplitz

from fedau_flwr.privacy.toeplitz import (
    best_bands,
    inverse,
    prefix_variances,
    relative_error,
    sensitivity,
    square_root,
)


def dense(coefficients, rounds):
    """Return the lower triangular Toeplitz matrix itself."""
    column = np.zeros(rounds)
    column[: len(coefficients)] = coefficients[:rounds]
    return toeplitz(column, np.zeros(rounds))


def brute_force(coefficients, rounds, separation, limit):
    """Return the sensitivity over all patterns; contributions may all point the same way."""
    matrix = dense(coefficients, rounds)
    return max(
        np.linalg.norm(matrix[:, list(pattern)].sum(axis=1))
        for count in range(1, limit + 1)
        for pattern in combinations(range(rounds), count)
        if all(b - a >= separation for a, b in pairwise(pattern))
    )


non_increasing = st.lists(st.floats(0, 1), max_size=11).map(lambda c: [1.0, *sorted(c)[::-1]])


def test_square_root_and_its_inverse():
    assert np.allclose(square_root(5), [1, 1 / 2, 3 / 8, 5 / 16, 35 / 128], rtol=1e-15)
    assert np.allclose(inverse(square_root(5), 5), [1, -1 / 2, -1 / 8, -1 / 16, -5 / 128])
    squared = dense(square_root(40), 40) @ dense(square_root(40), 40)
    assert np.allclose(squared, np.tri(40))


@given(non_increasing, st.integers(1, 30))
def test_inverse_is_the_dense_one(coefficients, rounds):
    expected = np.linalg.inv(dense(coefficients, rounds))[:, 0]
    assert np.allclose(inverse(coefficients, rounds), expected, atol=1e-9 * np.abs(expected).max())


@settings(max_examples=40)
@given(non_increasing, st.integers(1, 12), st.integers(1, 13), st.integers(1, 12))
def test_sensitivity_is_that_of_all_patterns(coefficients, rounds, separation, limit):
    expected = brute_force(coefficients, rounds, separation, limit)
    assert sensitivity(coefficients, rounds, separation, limit) == pytest.approx(expected)


def test_sensitivity_at_twelve_rounds_for_every_separation_and_limit():
    c = square_root(12)
    for separation in (1, 2, 3, 5, 12):
        for limit in (1, 2, 4, 12):
            expected = brute_force(c, 12, separation, limit)
            assert sensitivity(c, 12, separation, limit) == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, 300), st.integers(1, 60), st.integers(1, 60), st.integers(1, 300))
def test_sensitivity_is_monotone(rounds, separation, limit, bands):
    c = square_root(bands)
    here = sensitivity(c, rounds, separation, limit)
    assert sensitivity(c, rounds, separation + 1, limit) <= here + 1e-12
    assert sensitivity(c, rounds, separation, limit + 1) >= here - 1e-12
    assert sensitivity(c, rounds + 1, separation, limit) >= here - 1e-12


def test_without_overlap_participations_add_in_squares():
    assert sensitivity(square_root(10), 1000, 10) == pytest.approx(
        10 * np.linalg.norm(square_root(10))
    )


@pytest.mark.parametrize("coefficients", [[1.0, 0.5, 0.6], [1.0, -0.1], [1.0, 1.1]])
def test_sensitivity_refuses_what_the_theorem_does_not_cover(coefficients):
    with pytest.raises(ValueError, match="increase or are negative"):
        sensitivity(coefficients, 10)


def test_prefix_variances_are_the_rows_of_the_dense_product():
    product = np.tri(50) @ np.linalg.inv(dense(square_root(7), 50))
    found = prefix_variances(inverse(square_root(7), 50))
    assert np.allclose(found, (product**2).sum(axis=1))


@pytest.mark.parametrize(
    ("separation", "bands", "expected"),
    [
        (1, 1, 1.0),
        (10, 64, 0.352),
        (20, 64, 0.266),
        (50, 100, 0.188),
        (100, 200, 0.151),
        (10, 10, 0.382),
        (20, 20, 0.288),
        (50, 50, 0.201),
        (100, 100, 0.157),
    ],
)
def test_published_errors(separation, bands, expected):
    found = relative_error(square_root(bands), 2000, separation)
    assert found == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(("separation", "bands"), [(1, 1), (10, 50), (20, 80), (50, 150)])
def test_best_bands_of_2000_rounds(separation, bands):
    assert best_bands(2000, separation) == bands


@pytest.mark.parametrize(
    ("rounds", "separation", "limit", "most"),
    [
        (120, 1, None, None),
        (120, 2, 4, None),
        (150, 12, None, None),
        (200, 30, 3, 25),
        (9, 3, 2, 4),
    ],
)
def test_best_bands_are_within_a_thousandth_of_all(rounds, separation, limit, most):
    bands = best_bands(rounds, separation, limit, most=most)
    errors = [
        relative_error(square_root(m), rounds, separation, limit)
        for m in range(1, (most or rounds) + 1)
    ]
    assert 1 <= bands <= (most or rounds)
    assert errors[bands - 1] <= 1.001 * min(errors)


def test_bad_settings():
    with pytest.raises(ValueError, match="bands is 0, but must be at least 1"):
        square_root(0)
    with pytest.raises(ValueError, match="most is 0, but must be at least 1"):
        best_bands(10, most=0)
    with pytest.raises(ValueError, match="coefficients must be finite and begin with 1"):
        inverse([0.5], 3)
    with pytest.raises(ValueError, match="rounds is 0, but must be at least 1"):
        inverse([1.0], 0)
