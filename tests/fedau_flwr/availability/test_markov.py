import numpy as np
import pytest
from scipy import stats

from fedau_flwr.availability import Markov
from fedau_flwr.availability.draws import Draws


def test_transition_probabilities_keep_p_stationary():
    p = np.array([1e-16, 0.01, 0.02, 1 / 21, 0.3, 0.9, 1.0])
    process = Markov(p, seed=1)
    a, b = process.activation, process.deactivation
    np.testing.assert_allclose(p * b, (1 - p) * a * (p < 1), rtol=1e-12, atol=1e-30)
    np.testing.assert_allclose(a[2:6], [0.02 / 0.98, 0.05, 0.05, 0.05], rtol=1e-12)
    np.testing.assert_allclose(b[2:], [1.0, 1.0, 0.05 * 7 / 3, 0.05 / 9, 0.0], rtol=1e-12)
    assert a.max() <= 0.05
    assert b.max() <= 1


def test_transition_counts_and_stationary_probability():
    p = np.repeat([0.02, 0.1, 0.5, 0.9], 500)
    process = Markov(p, seed=3)
    path = np.array([process.active(t) for t in range(300)]).reshape(300, 4, 500)
    before, after = path[:-1], path[1:]
    for group, (a, b) in enumerate(
        zip(process.activation[::500], process.deactivation[::500], strict=True)
    ):
        was_on = before[:, group].ravel()
        is_on = after[:, group].ravel()
        activations = stats.binomtest(int(is_on[~was_on].sum()), int((~was_on).sum()), a)
        assert activations.pvalue > 0.001
        if b < 1:
            deactivations = stats.binomtest(int((~is_on[was_on]).sum()), int(was_on.sum()), b)
            assert deactivations.pvalue > 0.001
        else:
            assert not is_on[was_on].any()
        for t in (0, 150, 299):
            assert stats.binomtest(int(path[t, group].sum()), 500, p[500 * group]).pvalue > 0.001


def test_a_certain_client_always_comes():
    process = Markov([1.0], seed=1)
    assert all(process.active(t)[0] for t in range(200))


def test_going_forward_is_one_step_per_round_and_going_back_is_short(monkeypatch):
    process = Markov(np.full(50, 0.2), seed=4)
    steps = 0
    original = Draws.uniforms

    def counted(self, t, size):
        nonlocal steps
        steps += 1
        return original(self, t, size)

    monkeypatch.setattr(Draws, "uniforms", counted)
    path = [process.active(t) for t in range(2000)]
    assert steps == 1999
    steps = 0
    np.testing.assert_array_equal(process.active(1001), path[1001])
    assert steps < 2000 / 64
    np.testing.assert_array_equal(process.active(1999), path[1999])
    assert len(process._snapshots) <= 128


@pytest.mark.parametrize("wrong", [0.0, 1.1, float("nan")])
def test_max_activation_outside_the_range_is_named(wrong):
    with pytest.raises(ValueError, match=r"^max_activation is .*, but must be in \(0, 1\]\.$"):
        Markov([0.5], seed=1, max_activation=wrong)
