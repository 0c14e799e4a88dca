"""Accounting per client: at most once in b rounds, at most k times."""

from math import ceil

import pytest

from fedau_flwr import FedAU, GaussianPrivacy, PrivacyBudget
from fedau_flwr.privacy.gdp import composed, epsilon_of, noise_multiplier

DELTA = 1e-5


def test_a_separated_client_is_charged_for_the_sums_it_can_be_in():
    budget = PrivacyBudget(8.0, DELTA, separation=10)
    for number in range(1, 36):
        budget.charge(4.0)
        assert budget.spent == epsilon_of(DELTA, composed(4.0, ceil(number / 10)))
    limited = PrivacyBudget(8.0, DELTA, separation=10, participations=2)
    for _ in range(35):
        limited.charge(4.0)
    assert limited.spent == epsilon_of(DELTA, composed(4.0, 2))


@pytest.mark.parametrize(("separation", "noise"), [(1, 26.84), (10, 8.49), (50, 3.80), (100, 2.68)])
def test_two_thousand_rounds_have_room_at_the_published_noise(separation, noise):
    multiplier = noise_multiplier(8.0, DELTA, ceil(2000 / separation))
    assert multiplier == pytest.approx(noise, abs=0.005)
    budget = PrivacyBudget(8.0, DELTA, separation=separation)
    assert budget.rounds(multiplier) == 2000


def test_rounds_without_a_sum_let_time_go_by():
    budget = PrivacyBudget(8.0, DELTA, separation=50)
    budget.charge(2.0, 1)
    assert budget.rounds(2.0) == 549  # eleven turns of a client
    budget.pass_by(50)
    budget.charge(2.0, 51)
    assert budget.spent == epsilon_of(DELTA, composed(2.0, 2))
    # Two sums, however many rounds: one client cannot be in a third.
    budget.pass_by(400)
    assert budget.spent == epsilon_of(DELTA, composed(2.0, 2))


def test_of_different_noise_the_least_is_charged():
    budget = PrivacyBudget(8.0, DELTA, separation=2)
    for noise in (9.0, 5.0, 7.0):
        budget.charge(noise)
    one = PrivacyBudget(8.0, DELTA)
    one.charge(5.0)
    one.charge(7.0)
    assert budget.spent == one.spent


def test_checkpoints_and_journals_know_the_rounds(tmp_path):
    journal = tmp_path / "spent.txt"
    budget = PrivacyBudget(8.0, DELTA, separation=10, journal=journal)
    budget.charge(4.0, 1)
    saved = budget.state()
    budget.charge(4.0, 12)
    again = PrivacyBudget(8.0, DELTA, separation=10, journal=journal)
    assert again.spent == budget.spent
    again.restore(saved)
    assert again.spent == budget.spent
    # The rounds after the checkpoint are run again: they are no turns of their own.
    again.charge(4.0, 2)
    assert again.spent == budget.spent
    forgetful = PrivacyBudget(8.0, DELTA, separation=10)
    forgetful.restore(saved)
    forgetful.charge(4.0)
    assert forgetful.spent == epsilon_of(DELTA, composed(4.0, 1))


def test_journals_of_version_1_are_read(tmp_path):
    journal = tmp_path / "spent.txt"
    journal.write_text("4.0\n4.0\n")
    budget = PrivacyBudget(8.0, DELTA, journal=journal)
    assert budget.state() == {"4.0": 2}
    assert budget.spent == epsilon_of(DELTA, composed(4.0, 2))


def test_the_bound_of_flowers_accountant_is_beside_the_exact_one():
    budget = PrivacyBudget(8.0, DELTA, separation=10)
    assert budget.report() == {"epsilon": 0.0, "epsilon_left": 8.0, "epsilon_renyi": 0.0}
    for _ in range(100):
        budget.charge(4.0)
    exact, left, bound = budget.report().values()
    assert left == 8.0 - exact
    assert exact == budget.spent
    assert bound == budget.spent_renyi
    assert exact < bound < 1.2 * exact


def test_a_separation_reaches_the_clients_through_the_budget():
    budget = PrivacyBudget(8.0, DELTA, separation=10, participations=3)
    strategy = FedAU(5, privacy=GaussianPrivacy(1.0, 4.0, budget=budget))
    expected = {"fedau-separation": 10, "fedau-participations": 3}
    assert strategy.summation.separation.to_config() == expected
