import numpy as np
import pytest

from fedau_flwr.availability import Bernoulli, Cyclic, Markov, Separated


@pytest.mark.parametrize("separation", [0, 1, 7])
@pytest.mark.parametrize("kind", [Bernoulli, Markov, Cyclic])
def test_a_client_stays_away_after_a_turn_and_comes_as_soon_as_it_would(kind, separation):
    p = np.array([0.05, 0.3, 1.0])
    base, process = kind(p, 3), Separated(kind(p, 3), separation)
    would = np.array([base.active(t) for t in range(300)])
    expected, last = np.zeros_like(would), np.full(3, -(10**6))
    for t, here in enumerate(would):
        expected[t] = here & (t - last > separation)
        last[expected[t]] = t
    np.testing.assert_array_equal([process.active(t) for t in range(300)], expected)
    for t in (299, 12, 150, 0):  # and in any order
        np.testing.assert_array_equal(process.active(t), expected[t])


def test_the_mean_interval_is_the_separation_plus_that_of_the_process():
    process = Separated(Bernoulli(np.full(2000, 0.1), 1), 20)
    path = np.array([process.active(t) for t in range(600)])
    gaps = np.concatenate([np.diff(np.flatnonzero(column)) for column in path.T])
    assert gaps.min() == 21
    assert gaps.mean() == pytest.approx(30, abs=0.5)


@pytest.mark.parametrize("separation", [-1, 1.5, 2**15])
def test_what_is_no_separation(separation):
    with pytest.raises(ValueError, match="separation"):
        Separated(Bernoulli([0.5], 1), separation)
    with pytest.raises(ValueError, match=r"process is \[0.5\], but must be one such as Bernoulli"):
        Separated([0.5], 3)
