import numpy as np
import pytest
from scipy import stats

from fedau_flwr.availability import ArrivalDeparture, Bernoulli, InterleavedSine, Sine, Staircase

CLIENTS = 4000


def test_sine_follows_its_phase():
    process = Sine(np.full(CLIENTS, 0.4), seed=1, amplitude=0.5, period=8)
    root = np.sqrt(0.5)
    for phase, swing in enumerate([0, root, 1, root, 0, -root, -1, -root]):
        expected = 0.4 * (1 + 0.5 * swing)
        np.testing.assert_allclose(process.probability_at(phase + 80), expected)
        seen = sum(int(process.active(phase + 8 * k).sum()) for k in range(5))
        assert stats.binomtest(seen, 5 * CLIENTS, expected).pvalue > 0.001
    assert process.probability is None


def test_sine_is_capped_and_without_amplitude_is_bernoulli():
    assert Sine([0.9], seed=1, amplitude=1.0, period=4).probability_at(1) == 1.0
    still, bernoulli = Sine([0.3] * 50, seed=7, amplitude=0.0), Bernoulli([0.3] * 50, seed=7)
    for t in range(20):
        np.testing.assert_array_equal(still.active(t), bernoulli.active(t))


def test_staircase_has_its_mean_on_every_step():
    process = Staircase(np.full(CLIENTS, 0.4), seed=1, levels=(1.0, 0.5, 0.0, 4.0), length=3)
    for t in range(24):
        expected = [0.4, 0.2, 0.0, 1.0][t // 3 % 4]
        seen = int(process.active(t).sum())
        assert stats.binomtest(seen, CLIENTS, expected).pvalue > 0.001


def test_arrival_and_departure_bound_the_stay():
    process = ArrivalDeparture(np.full(CLIENTS, 1.0), seed=1, rounds=100)
    path = np.array([process.active(t) for t in range(110)])
    t = np.arange(110)[:, None]
    np.testing.assert_array_equal(path, (process.arrivals <= t) & (t < process.departures))
    assert stats.binomtest(int(path[0].sum()), CLIENTS, 0.5).pvalue > 0.001
    assert stats.binomtest(int(path[105].sum()), CLIENTS, 0.5).pvalue > 0.001
    assert process.arrivals.max() == 99
    assert process.departures[process.departures <= 110].max() == 100
    assert path.any(axis=0).all()


def test_stays_are_bernoulli_inside():
    process = ArrivalDeparture(np.full(CLIENTS, 0.3), seed=2, rounds=50)
    inside = (process.arrivals <= 20) & (process.departures > 20)
    active = process.active(20)
    assert not active[~inside].any()
    assert stats.binomtest(int(active.sum()), int(inside.sum()), 0.3).pvalue > 0.001


def test_wrong_options_are_named():
    with pytest.raises(ValueError, match=r"^amplitude is 1.5, but must be "):
        Sine([0.5], seed=1, amplitude=1.5)
    with pytest.raises(ValueError, match=r"^levels is \(\), but must be "):
        Staircase([0.5], seed=1, levels=())
    with pytest.raises(ValueError, match=r"^levels is \(-1.0,\), but must be "):
        Staircase([0.5], seed=1, levels=(-1.0,))
    with pytest.raises(ValueError, match=r"^rounds is 0, but must be "):
        ArrivalDeparture([0.5], seed=1, rounds=0)


def test_counts_follow_p_and_rounds_are_independent():
    rounds = 4000
    p = np.array([0.02, 0.1, 0.3, 0.527, 0.9])
    process = Bernoulli(p, seed=1)
    path = np.array([process.active(t) for t in range(rounds)])
    counts = path.sum(axis=0)
    z2 = (counts - rounds * p) ** 2 / (rounds * p * (1 - p))
    assert stats.chi2.sf(z2.sum(), df=len(p)) > 0.001
    pairs = (path[1:] & path[:-1]).sum(axis=0)
    # Pairs of neighbouring rounds overlap: Var = m·p²(1-p²) + 2(m-1)·(p³ - p⁴).
    m = rounds - 1
    variance = m * p**2 * (1 - p**2) + 2 * (m - 1) * (p**3 - p**4)
    assert stats.chi2.sf(((pairs - m * p**2) ** 2 / variance).sum(), df=len(p)) > 0.001


def test_counts_per_round_are_binomial():
    clients, rounds = 300, 2000
    process = Bernoulli(np.full(clients, 0.05), seed=2)
    counts = np.array([process.active(t).sum() for t in range(rounds)])
    edges = [10, 12, 14, 16, 18, 20]
    observed = np.bincount(np.digitize(counts, edges), minlength=len(edges) + 1)
    below = stats.binom.cdf(np.array(edges) - 1, clients, 0.05)
    expected = rounds * np.diff(np.concatenate([[0], below, [1]]))
    assert stats.chisquare(observed, expected).pvalue > 0.001


def test_certain_clients_always_come_and_probability_is_a_copy():
    process = Bernoulli([1.0, 0.5], seed=1)
    assert all(process.active(t)[0] for t in range(200))
    process.probability[:] = 0
    np.testing.assert_array_equal(process.probability, [1.0, 0.5])


def test_the_sines_of_fedawe():
    p = np.array([0.05, 0.12, 0.5, 1.0])
    sine = Sine(p, 1, amplitude=0.3, period=20, level=0.7)
    interleaved = InterleavedSine(p, 1)
    for t in range(45):
        expected = p * (0.3 * np.sin(2 * np.pi * t / 20) + 0.7)
        np.testing.assert_allclose(sine.probability_at(t), expected)
        expected = np.where(expected < 0.1, 0, expected)
        np.testing.assert_allclose(interleaved.probability_at(t), expected)
    there = np.array([interleaved.active(t) for t in range(40)])
    assert not there[:, 0].any()
    assert there[:, 3].sum() > 20
    for wrong in (
        {"amplitude": 0.8},
        {"level": 0.0},
        {"least": 2.0},
        {"least": "0.1"},
        {"period": 0},
    ):
        with pytest.raises(ValueError, match="but must be"):
            InterleavedSine(p, 1, **wrong)
