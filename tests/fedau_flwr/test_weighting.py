import math
import time
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedau_flwr import FedAUWeighting, InverseProbabilityWeighting, UnitWeighting, WeightState
from fedau_flwr.testing.algorithm2 import INITIAL, advanced
from fedau_flwr.weight_state import StateError, WeightStates

cutoffs = st.one_of(st.none(), st.integers(1, 12))
histories = st.lists(st.booleans(), max_size=80)
smoothings = st.one_of(st.none(), st.floats(0.01, 1.0))


def algorithm_2(history, cutoff, smoothing=None):
    return reduce(lambda state, came: advanced(state, came, cutoff, smoothing), history, INITIAL)


def assert_equals(state, expected):
    m, s, w = expected
    assert (state.intervals, state.elapsed) == (m, s)
    assert state.weight == pytest.approx(w, rel=1e-12)


@given(histories, cutoffs, smoothings)
def test_advance_is_algorithm_2(history, cutoff, smoothing):
    weighting = FedAUWeighting(cutoff, smoothing)
    state = weighting.initial()
    assert state == WeightState(0, 0, 0, 1.0)
    for t, participated in enumerate(history):
        state = weighting.advance(state, participated)
        assert state.round == t + 1
        assert_equals(state, algorithm_2(history[: t + 1], cutoff, smoothing))
        weighting.check(state)


@given(histories, st.lists(st.integers(0, 100), max_size=5), cutoffs, smoothings)
def test_skip_equals_the_loop(history, gaps, cutoff, smoothing):
    weighting = FedAUWeighting(cutoff, smoothing)
    state = weighting.initial()
    full = []
    for participated in history:
        state = weighting.advance(state, participated)
        full.append(participated)
    for gap in gaps:
        state = weighting.skip(state, gap)
        state = weighting.advance(state, True)
        full += [False] * gap + [True]
        assert_equals(state, algorithm_2(full, cutoff, smoothing))


def test_a_client_that_slept_for_a_billion_rounds_does_not_loop():
    weighting = FedAUWeighting(50)
    began = time.perf_counter()
    state = weighting.skip(weighting.initial(), 10**9)
    assert time.perf_counter() - began < 0.1
    assert state == WeightState(10**9, 10**9 // 50, 0, 50.0)


def test_exponential_mean_of_cut_off_intervals_has_the_closed_form():
    weighting = FedAUWeighting(cutoff=10, smoothing=0.25)
    state = weighting.advance(weighting.initial(), True)
    assert weighting.skip(state, 35).weight == pytest.approx(10 + 0.75**3 * (1 - 10), rel=1e-15)


@given(st.integers(0, 2**32 - 1), cutoffs, smoothings)
def test_vectorised_equals_scalar_to_the_last_bit(seed, cutoff, smoothing):
    weighting = FedAUWeighting(cutoff, smoothing)
    paths = np.random.default_rng(seed).random((30, 7)) < 0.3
    many = WeightStates.repeat(weighting.initial(), 7)
    single = [weighting.initial() for _ in range(7)]
    for row in paths:
        many = weighting.advance_all(many, row)
        single = [weighting.advance(s, bool(p)) for s, p in zip(single, row, strict=True)]
        assert [many[n] for n in range(len(many))] == single


def test_vectorised_leaves_its_input_alone():
    weighting = FedAUWeighting(3)
    states = WeightStates.repeat(weighting.initial(), 2)
    weighting.advance_all(states, np.array([True, False]))
    assert [states[0], states[1]] == [WeightState(), WeightState()]


@pytest.mark.parametrize(("p", "cutoff"), [(0.02, 50), (0.3, 10), (0.1, None)])
def test_mean_cut_off_interval(p, cutoff):
    weighting = FedAUWeighting(cutoff)
    states = WeightStates.repeat(weighting.initial(), 2000)
    rng = np.random.default_rng(1)
    for _ in range(2000):
        states = weighting.advance_all(states, rng.random(2000) < p)
    expected = (1 - (1 - p) ** (cutoff or math.inf)) / p
    assert states.weight.mean() == pytest.approx(expected, rel=0.02)


def test_constant_weightings_ignore_history():
    assert UnitWeighting().advance(UnitWeighting().initial(), True) == WeightState(round=1)
    known = InverseProbabilityWeighting(0.1)
    assert known.initial().weight == 10.0
    assert known.skip(known.initial(), 7) == WeightState(round=7, weight=10.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FedAUWeighting(0), "cutoff is 0, but must be an integer >= 1 or None."),
        (lambda: FedAUWeighting(2.5), "cutoff is 2.5, but must be an integer >= 1 or None."),
        (lambda: FedAUWeighting(True), "cutoff is True, but must be an integer >= 1 or None."),
        (lambda: FedAUWeighting(smoothing="a"), "smoothing is 'a', but must be in (0, 1] or None."),
        (lambda: FedAUWeighting(smoothing=0.0), "smoothing is 0.0, but must be in (0, 1] or None."),
        (
            lambda: InverseProbabilityWeighting(0.0),
            "p is 0.0, but must be a participation probability, in (0, 1].",
        ),
        (
            lambda: FedAUWeighting().skip(WeightState(), -1),
            "rounds is -1, but a client cannot skip fewer than 0 rounds.",
        ),
    ],
)
def test_bad_settings_get_one_sentence(make, message):
    with pytest.raises(ValueError, match=r".") as error:
        make()
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("state", "field"),
    [
        (WeightState(60, 0, 55, 1.0), "elapsed"),
        (WeightState(90, 1, 30, 60.0), "weight"),
        (WeightState(9, 0, 9, 2.0), "weight"),
        (WeightState(9, 3, 0, 2.0), "weight"),
    ],
)
def test_states_that_the_weighting_cannot_have_made(state, field):
    with pytest.raises(StateError, match=f"FedAU state: {field} is "):
        FedAUWeighting(50).check(state)
