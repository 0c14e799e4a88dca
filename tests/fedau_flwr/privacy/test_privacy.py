import math

import numpy as np
import pytest
from flwr.supercore.privacy_accounting import (
    GaussianPrivacyEvent,
    NeighboringRelation,
    PrivacyConfig,
    SamplingMethod,
)
from flwr.supercore.privacy_accounting.rdp_accountant import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm as normal

from fedau_flwr.privacy import (
    AdaptiveNorm,
    PrivacyBudget,
    add_noise,
    clip,
    l2_norm,
    share_std,
    sum_std,
)
from fedau_flwr.privacy.generator import SecureGenerator
from fedau_flwr.secure import FixedPoint, Payload


@given(
    st.integers(0, 2**32 - 1),
    st.floats(1e-3, 1e3),
    st.floats(1.0, 1e6),
    st.sampled_from([np.float16, np.float32, np.float64]),
)
def test_sensitivity_never_exceeds_the_norm_for_any_weight(seed, norm, weight, dtype):
    rng = np.random.default_rng(seed)
    scale = min(weight * rng.exponential(), 1000.0)
    contribution = [np.asarray(scale * rng.normal(size=s), dtype) for s in ((3, 4), (), (7,))]
    clipped, within = clip(contribution, norm)
    length = l2_norm(contribution)
    assert l2_norm(clipped) <= norm
    assert within == (length <= norm)
    assert all(
        c.dtype == dtype and c.shape == o.shape for c, o in zip(clipped, contribution, strict=True)
    )
    if within:
        assert all(np.array_equal(c, o) for c, o in zip(clipped, contribution, strict=True))
    elif dtype is not np.float16:
        assert l2_norm(clipped) == pytest.approx(norm, rel=1e-5)
        assert np.allclose(clipped[0] * length, contribution[0] * norm, rtol=1e-4, atol=1e-30)


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 3.0), st.integers(8, 22))
def test_sensitivity_holds_after_rounding_to_the_grid(seed, norm, bits):
    rng = np.random.default_rng(seed)
    fixed = FixedPoint(value_range=4.0, bits=bits, max_cohort=60)
    slack = fixed.rounding_error(20)
    if slack >= norm:
        with pytest.raises(ValueError, match=r"must be above .* the error of rounding"):
            clip([np.ones(20)], norm, slack=slack)
        return
    clipped, _ = clip([rng.normal(size=20) * 10], norm, slack=slack)
    assert l2_norm([fixed.round(clipped[0], rng)[0]]) <= norm


def test_slack_moves_the_bound_but_not_the_question_that_is_asked():
    value = [np.array([0.95])]
    clipped, within = clip(value, 1.0, slack=0.1)
    assert within
    assert clipped[0] == pytest.approx(0.9)


def test_values_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="not finite"):
        clip([np.array([1.0, np.inf])], 1.0)


def five_sigma(variance, samples):
    """Return the tolerance for the variance of so many normal values."""
    return 5 * variance * math.sqrt(2 / samples)


def test_central_noise_has_the_claimed_variance():
    std = sum_std(1.5, 0.4)
    assert std == pytest.approx(0.6)
    zeros = [np.zeros((200, 500), np.float32), np.zeros((), np.float64)]
    noisy = add_noise(zeros, std, np.random.default_rng(0))
    assert [a.dtype for a in noisy] == [np.float32, np.float64]
    assert [a.shape for a in noisy] == [(200, 500), ()]
    assert abs(noisy[0].var() - 0.36) < five_sigma(0.36, 100_000)
    assert noisy[1] != 0


@pytest.mark.parametrize("survivors", [8, 9, 12])
def test_split_noise_has_at_least_the_claimed_variance_with_dropouts(survivors):
    # Twelve clients of which up to four may drop out: eight shares make up the noise.
    generator = SecureGenerator()
    payload = Payload(shapes=((50_000,),), fixed_point=FixedPoint(max_cohort=12))
    share = share_std(0.6, survivors=8)
    total = np.zeros(50_000, np.uint32)
    for _ in range(survivors):
        total += payload.encode(
            [payload.fixed_point.add_noise(np.zeros(50_000), share, generator)[0]]
        )
    (noise,), _ = payload.decode(total)
    claimed = 0.36
    actual = claimed * survivors / 8
    assert actual >= claimed
    assert abs(noise.var() - actual) < five_sigma(actual, 50_000)
    # And it is Gaussian: the fourth moment says so.
    kurtosis = (noise**4).mean() / noise.var() ** 2
    assert abs(kurtosis - 3) < 5 * math.sqrt(24 / 50_000)


def test_colluding_clients_noise_does_not_count():
    assert share_std(1.0, survivors=8, colluding=4) == pytest.approx(0.5)
    for survivors, colluding in ((2, 2), (3, -1), (0, 0)):
        with pytest.raises(ValueError, match=f"survivors is {survivors}, but must be more than"):
            share_std(1.0, survivors=survivors, colluding=colluding)


def test_the_adaptive_norm_finds_the_quantile():
    rng = np.random.default_rng(0)
    norms = rng.lognormal(0, 1, (300, 200))
    adaptive = AdaptiveNorm(norm=50.0, quantile=0.7, bit_noise=10.0)
    for row in norms:
        bits = sum(adaptive.bit(length <= adaptive.norm) for length in row)
        adaptive = adaptive.update(bits + rng.normal(0, adaptive.bit_noise), 200)
    assert adaptive.norm == pytest.approx(math.exp(normal.ppf(0.7)), rel=0.1)


def test_one_update_of_the_adaptive_norm_by_hand():
    adaptive = AdaptiveNorm(norm=2.0, quantile=0.5, learning_rate=0.2, bit_noise=1.0)
    # Three of four within: the fraction is 3/4.
    assert adaptive.update(3 * 0.5 - 0.5, 4).norm == pytest.approx(2.0 * math.exp(-0.2 * 0.25))
    assert adaptive.update(0.3, 0) is adaptive


@given(st.floats(0.1, 10), st.floats(5.1, 1000))
def test_bits_and_contributions_together_cost_what_was_asked(noise, bit_noise):
    adaptive = AdaptiveNorm(norm=1.0, bit_noise=bit_noise)
    left = adaptive.contribution_multiplier(noise)
    assert left >= noise
    # Two Gaussian releases at once: inverse squares add; the bit's sensitivity is one half.
    assert left**-2 + (2 * bit_noise) ** -2 == pytest.approx(noise**-2)


def test_too_little_noise_on_the_bits_is_refused():
    with pytest.raises(ValueError, match=r"bit_noise is 0.5, but must be more than half"):
        AdaptiveNorm(norm=1.0, bit_noise=0.5).contribution_multiplier(1.0)


@pytest.mark.parametrize("name", ["norm", "learning_rate", "bit_noise", "quantile"])
def test_impossible_norms_are_refused_by_name(name):
    with pytest.raises(ValueError, match=f"{name} is -1"):
        AdaptiveNorm(**{"norm": 1.0, "bit_noise": 1.0, name: -1.0})


def exact_epsilon(noise, rounds, delta):
    """Return the tight ε of Gaussian sums (Balle and Wang 2018, Theorem 8)."""
    mu = math.sqrt(rounds) / noise

    def excess(epsilon):
        first = normal.cdf(mu / 2 - epsilon / mu)
        return first - math.exp(epsilon) * normal.cdf(-mu / 2 - epsilon / mu) - delta

    return brentq(excess, 1e-9, 200)


def renyi_epsilon(noise, rounds, delta):
    """Return ε by Rényi divergences α T / 2σ² (Mironov 2017), converted by Canonne et al. 2020."""

    def bound(order):
        loss = order * rounds / (2 * noise**2)
        return loss + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)

    return minimize_scalar(bound, bounds=(1.0001, 2000), method="bounded").fun


@pytest.mark.parametrize(
    ("noise", "rounds", "delta"), [(1, 1, 1e-5), (4, 100, 1e-5), (10, 1000, 1e-6), (20, 50, 1e-5)]
)
def test_spent_epsilon_against_published_formulas(noise, rounds, delta):
    budget = PrivacyBudget(1000.0, delta)
    for _ in range(rounds):
        budget.charge(float(noise))
    assert budget.spent == pytest.approx(exact_epsilon(noise, rounds, delta), rel=1e-6)
    assert budget.spent_renyi == pytest.approx(renyi_epsilon(noise, rounds, delta), rel=2e-3)
    assert budget.spent_renyi >= budget.spent
    # The closed form of Bun and Steinke (2016): ρ + 2 sqrt(ρ log(1/δ)) with ρ = T/2σ².
    rho = rounds / (2 * noise**2)
    assert budget.spent <= rho + 2 * math.sqrt(rho * math.log(1 / delta))


def test_the_exact_curve_that_bounds_ours_has_its_published_point():
    # One-GDP is (1, 0.127)-private (Dong, Roth and Su 2022).
    assert exact_epsilon(1.0, 1, 0.126936737507) == pytest.approx(1.0, abs=1e-9)


def test_flowers_accountant_against_abadi_et_al():
    # "Deep Learning with Differential Privacy", Section 3.2: q = 0.01, σ = 4, δ = 1e-5 and 10,000
    # steps cost ε ≈ 1.26 by the moments accountant; conversions have become tighter since.
    config = PrivacyConfig(1e-5, 100, NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.POISSON)
    accountant = RdpAccountant(config)
    accountant.compose(GaussianPrivacyEvent(4.0, 1, 100), 10_000)
    assert 0.9 < accountant.get_epsilon(1e-5) <= 1.26


def test_the_exact_formula_has_room_for_more_rounds():
    # The example of the documentation; the Rényi bound has room for 245.
    assert PrivacyBudget(8.0, 1e-5).rounds(10.0) == 277


def test_nothing_is_gained_from_sampling():
    budget = PrivacyBudget(8.0, 1e-5)
    budget.charge(4.0)
    assert budget.spent == pytest.approx(exact_epsilon(4.0, 1, 1e-5), rel=1e-6)


def test_the_budget_says_before_which_round_to_stop():
    budget = PrivacyBudget(8.0, 1e-5)
    rounds = budget.rounds(4.0)
    assert rounds > 1
    for _ in range(rounds):
        assert budget.allows(4.0)
        budget.charge(4.0)
    assert budget.spent <= 8.0
    assert not budget.allows(4.0)
    assert budget.rounds(4.0) == 0
    assert budget.allows(1000.0)


def test_a_checkpoint_forgets_nothing_that_was_spent():
    budget = PrivacyBudget(8.0, 1e-5)
    assert budget.spent == 0.0
    budget.charge(4.0)
    budget.charge(4.0)
    budget.charge(7.3)
    resumed = PrivacyBudget(8.0, 1e-5)
    resumed.restore(budget.state())
    assert resumed.spent == budget.spent > 0
    assert budget.state() == {"4.0": 2, "7.3": 1}


@pytest.mark.parametrize(
    ("epsilon", "delta", "name"),
    [(0.0, 1e-5, "epsilon"), (math.inf, 1e-5, "epsilon"), (1.0, 0.0, "delta"), (1.0, 1.0, "delta")],
)
def test_impossible_budgets_are_refused_by_name(epsilon, delta, name):
    with pytest.raises(ValueError, match=f"{name} is "):
        PrivacyBudget(epsilon, delta)
    with pytest.raises(ValueError, match="noise_multiplier is "):
        sum_std(0.0, 1.0)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "dp_accounting", None)
    budget = PrivacyBudget(1.0, 1e-5)
    budget.charge(8.0)
    assert budget.spent > 0
    with pytest.raises(ImportError, match=r"pip install 'fedau-flwr\[privacy\]'"):
        _ = budget.spent_renyi


def test_a_journal_remembers_the_rounds_that_no_checkpoint_has(tmp_path):
    path = tmp_path / "new" / "spent.txt"
    budget = PrivacyBudget(8.0, 1e-5, journal=path)
    budget.charge(4.0)
    checkpoint = budget.state()
    budget.charge(4.0)
    budget.charge(5.0)
    after_crash = PrivacyBudget(8.0, 1e-5, journal=path)
    assert after_crash.spent == budget.spent
    after_crash.restore(checkpoint)
    assert after_crash.state() == {"4.0": 2, "5.0": 1}
    forgetful = PrivacyBudget(8.0, 1e-5)
    forgetful.restore(checkpoint)
    assert forgetful.spent < budget.spent
    path.write_text("4.0\nmuch\n")
    with pytest.raises(ValueError, match="must hold a noise multiplier per line"):
        PrivacyBudget(8.0, 1e-5, journal=path)
