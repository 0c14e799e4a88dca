"""What the paper promises, on quadratics `F_n(x) = ½(x − a_n)²` with Bernoulli participation."""

import numpy as np
import pytest

from fedau_flwr import FedAUWeighting
from fedau_flwr.weight_state import WeightStates

P = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0])
TARGETS = np.linspace(-1.0, 1.0, len(P))
STEP = 2e-3


def where_it_ends(cutoff, rounds, weighted=True, participants=False, seed=0):
    """Return the average of the last half of the iterates."""
    weighting = FedAUWeighting(cutoff)
    states = WeightStates.repeat(weighting.initial(), len(P))
    rng = np.random.default_rng(seed)
    x, late = 0.0, []
    for t in range(rounds):
        here = rng.random(len(P)) < P
        weights = states.weight if weighted else 1.0
        divisor = max(here.sum(), 1) if participants else len(P)
        x += STEP * np.sum(weights * here * (TARGETS - x)) / divisor
        states = weighting.advance_all(states, here)
        if 2 * t >= rounds:
            late.append(x)
    return np.mean(late)


def mean_weighted_by(weights):
    return np.sum(weights * TARGETS) / np.sum(weights)


def test_average_all_ends_at_the_p_weighted_mean():
    assert where_it_ends(None, 20_000, weighted=False) == pytest.approx(
        mean_weighted_by(P), abs=0.02
    )
    assert abs(mean_weighted_by(P)) > 0.3  # far from the plain mean, 0


def test_average_participating_ends_near_it():
    # E[I_n / |S_t|], by simulation of the participants alone.
    here = np.random.default_rng(1).random((50_000, len(P))) < P
    share = np.mean(here / here.sum(1, keepdims=True), axis=0)
    ended = where_it_ends(None, 20_000, weighted=False, participants=True)
    assert ended == pytest.approx(mean_weighted_by(share), abs=0.02)
    assert abs(ended - mean_weighted_by(P)) < 0.1


def test_fedau_without_cutoff_ends_at_the_plain_mean():
    assert where_it_ends(None, 40_000) == pytest.approx(0.0, abs=0.05)


@pytest.mark.parametrize("cutoff", [3, 10])
def test_fedau_with_a_cutoff_ends_at_its_own_mean(cutoff):
    expected = mean_weighted_by(1 - (1 - P) ** cutoff)
    assert where_it_ends(cutoff, 20_000) == pytest.approx(expected, abs=0.02)


def test_the_distance_falls_with_the_number_of_rounds():
    distance = [
        np.mean([abs(where_it_ends(None, rounds, seed=seed)) for seed in range(4)])
        for rounds in (500, 4_000, 32_000)
    ]
    assert distance[0] > distance[1] > distance[2]


def weight_error(cutoff, rounds, clients=400, p=0.1):
    weighting = FedAUWeighting(cutoff)
    states = WeightStates.repeat(weighting.initial(), clients)
    rng = np.random.default_rng(2)
    total = 0.0
    for _ in range(rounds):
        total += np.mean((p * states.weight - 1) ** 2)
        states = weighting.advance_all(states, rng.random(clients) < p)
    return total / rounds


def test_the_weight_error_falls_with_t_down_to_the_bias_of_the_cutoff():
    early, late = weight_error(None, 300), weight_error(None, 6_000)
    assert late < early / 5
    for cutoff in (5, 10, 20):
        assert weight_error(cutoff, 6_000) == pytest.approx(0.9 ** (2 * cutoff), rel=0.25, abs=0.01)


def test_expected_weight_of_a_rare_client_needs_time():
    weighting = FedAUWeighting(None)
    states = WeightStates.repeat(weighting.initial(), 20_000)
    rng = np.random.default_rng(4)
    means = {}
    for t in range(1, 501):
        states = weighting.advance_all(states, rng.random(20_000) < 0.02)
        means[t] = states.weight.mean()
    assert means[100] == pytest.approx(30, abs=1.5)
    assert means[500] == pytest.approx(50, abs=2.5)
