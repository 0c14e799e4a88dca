import numpy as np
import pytest

from fedau_flwr.availability import (
    Bernoulli,
    participation_probabilities,
    uniform_class_probabilities,
)

OPTIONS = {"concentration": 0.1, "mean": 0.1, "floor": 0.0, "seed": 1}


def test_one_class_clients_show_q_itself():
    p = participation_probabilities(np.eye(10), **OPTIONS)
    q = p / (10 * 0.1)
    assert q.sum() == pytest.approx(1, abs=1e-12)
    mixed = np.random.default_rng(0).dirichlet(np.full(10, 0.5), 30)
    np.testing.assert_allclose(participation_probabilities(mixed, **OPTIONS), mixed @ q, rtol=1e-12)


def test_a_generator_goes_on_from_where_it_is():
    generator, again = np.random.RandomState(1), np.random.RandomState(1)
    generator.random_sample(7)
    again.random_sample(7)
    p = participation_probabilities(np.eye(10), **{**OPTIONS, "seed": generator})
    np.testing.assert_allclose(p, again.dirichlet(np.full(10, 0.1)), rtol=1e-12)


def test_mean_over_seeds_is_mu():
    shares = np.eye(5)
    means = [
        participation_probabilities(shares, **{**OPTIONS, "seed": seed})[0] for seed in range(4000)
    ]
    # Var q_c = (1/C)(1 - 1/C)/(C·alpha + 1), scaled by (C·mu)².
    deviation = 5 * 0.1 * np.sqrt(0.2 * 0.8 / (5 * 0.1 + 1) / 4000)
    assert abs(np.mean(means) - 0.1) < 4 * deviation


def test_floor_and_cap_bind():
    shares = np.eye(100)
    p = participation_probabilities(shares, **{**OPTIONS, "concentration": 0.01, "floor": 0.02})
    assert p.min() == 0.02
    assert p.max() == 1.0


def test_without_a_floor_probabilities_stay_positive():
    for seed in range(50):
        options = {**OPTIONS, "concentration": 0.001, "seed": seed}
        p = participation_probabilities(np.eye(10), **options)
        assert p.min() > 0
        assert np.isfinite(1 / p).all()
        Bernoulli(p, seed=seed)


@pytest.mark.parametrize(
    ("key", "value"),
    [("concentration", 0.0), ("mean", 0.0), ("mean", 1.5), ("floor", -0.1), ("seed", -1)],
)
def test_wrong_options_are_named(key, value):
    with pytest.raises(ValueError, match=rf"^{key} is {value}, but must be "):
        participation_probabilities(np.eye(3), **{**OPTIONS, key: value})


def test_wrong_shares_are_named():
    with pytest.raises(ValueError, match=r"^the shape of class_shares is \(3,\), but"):
        participation_probabilities(np.ones(3), **OPTIONS)
    for row in ([0.5, 0.4], [1.5, -0.5], [np.nan, 1.0]):
        with pytest.raises(ValueError, match=r"^class_shares of client 1 is .*, but must be"):
            participation_probabilities([[0.5, 0.5], row], **OPTIONS)


def test_uniform_weights_per_class():
    """With one class each, the probabilities are the weights themselves."""
    p = np.stack([uniform_class_probabilities(np.eye(10), seed=seed) for seed in range(400)])
    first, second = p[:, :5], p[:, 5:]
    assert first.max() < 1
    assert second.max() < 0.5
    assert first.mean() == pytest.approx(0.5, abs=0.02)
    assert second.mean() == pytest.approx(0.25, abs=0.01)
    shares = np.full((3, 10), 0.1)
    np.testing.assert_allclose(uniform_class_probabilities(shares, seed=7), p[7].mean())
