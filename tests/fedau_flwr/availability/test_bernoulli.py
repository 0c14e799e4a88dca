import numpy as np
from scipy import stats

from fedau_flwr.availability import Bernoulli


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
