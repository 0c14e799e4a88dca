import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_ndtr

from fedau_flwr.privacy.gdp import (
    composed,
    delta_of,
    epsilon_of,
    mu_of,
    noise_multiplier,
    participations,
    releases_within,
)

mus = st.floats(-6, 3).map(lambda exponent: 10.0**exponent)
deltas = st.floats(-100, -0.01).map(lambda exponent: 10.0**exponent)


def test_published_points():
    assert mu_of(8, 1e-5) == pytest.approx(1.66603, abs=5e-6)
    found = {b: noise_multiplier(8, 1e-5, participations(2000, b)) for b in (1, 10, 20, 50, 100)}
    expected = {1: 26.84, 10: 8.49, 20: 6.00, 50: 3.80, 100: 2.68}
    assert found == pytest.approx(expected, abs=5e-3)


def test_exact_accounting_has_room_for_277_rounds_where_renyi_stops_after_245():
    assert releases_within(8, 1e-5, 10.0) == 277
    assert epsilon_of(1e-5, composed(10.0, 277)) <= 8 < epsilon_of(1e-5, composed(10.0, 278))


def test_without_epsilon_delta_is_the_total_variation():
    for mu in (1e-6, 1e-3, 1.0, 5.0):
        assert delta_of(0, mu) == pytest.approx(math.erf(mu / math.sqrt(8)), rel=1e-9)


@given(st.floats(0.05, 30), st.floats(0, 50))
def test_delta_is_the_closed_form_where_that_can_be_evaluated(mu, epsilon):
    closed = math.exp(log_ndtr(-epsilon / mu + mu / 2))
    closed -= math.exp(epsilon + log_ndtr(-epsilon / mu - mu / 2))
    assert delta_of(epsilon, mu) == pytest.approx(closed, rel=1e-6, abs=1e-12)


@given(mus, deltas)
def test_inverses_agree_and_are_rounded_to_the_safe_side(mu, delta):
    epsilon = epsilon_of(delta, mu)
    assert delta_of(epsilon, mu) <= delta
    if epsilon > 0:
        assert mu_of(epsilon, delta) == pytest.approx(mu, rel=1e-8)
        assert delta_of(epsilon * (1 - 1e-6), mu) > delta
    assert delta_of(epsilon, mu_of(epsilon, delta)) <= delta


@given(mus, deltas, st.floats(1.001, 10))
def test_more_noise_and_larger_delta_mean_smaller_epsilon(mu, delta, factor):
    epsilon = epsilon_of(delta, mu)
    assert epsilon_of(delta, mu * factor) >= epsilon
    assert epsilon_of(min(0.999, delta * factor), mu) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize(("mu", "epsilon"), [(1e-6, 1e6), (1e3, 0.0), (1e3, 1e6), (0.0, 1.0)])
def test_extremes_stay_within_zero_and_one(mu, epsilon):
    assert delta_of(epsilon, mu) == (1.0 if mu and mu > epsilon / 1e3 else 0.0)


@pytest.mark.parametrize(
    ("rounds", "separation", "limit", "expected"),
    [(2000, 1, None, 2000), (2000, 30, None, 67), (10, 20, None, 1), (2000, 50, 7, 7)],
)
def test_participations(rounds, separation, limit, expected):
    assert participations(rounds, separation, limit) == expected


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: delta_of(-1, 1), "epsilon is -1, but must be finite and not negative."),
        (lambda: delta_of(1, math.inf), "mu is inf, but must be finite and not negative."),
        (lambda: epsilon_of(0, 1), "delta is 0, but must be strictly between 0 and 1."),
        (lambda: mu_of(math.nan, 0.1), "epsilon is nan, but must be finite and not negative."),
        (lambda: participations(0), "rounds is 0, but must be at least 1."),
        (lambda: participations(5, 0), "separation is 0, but must be at least 1."),
        (lambda: participations(5, 1, 0), "limit is 0, but must be at least 1."),
        (lambda: composed(0, 5), "noise_multiplier is 0, but must be positive and finite."),
        (lambda: noise_multiplier(1, 0.1, 0), "releases is 0, but must be at least 1."),
    ],
)
def test_bad_settings(call, sentence):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the whole sentence is compared
        call()
    assert str(error.value) == sentence
