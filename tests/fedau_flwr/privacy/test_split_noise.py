"""Noise that clients share out: who sees how much of it, and what a grid holds."""

import functools
import math

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedau_flwr import FedAU, FedAUMod, UnitWeighting
from fedau_flwr.client.preparation import Preparation
from fedau_flwr.privacy import AdaptiveNorm, GaussianPrivacy, PrivacyBudget
from fedau_flwr.privacy.gdp import epsilon_of
from fedau_flwr.privacy.private_sum import OutsidersView
from fedau_flwr.secure import FixedPoint, SecureSumMod
from fedau_flwr.secure import SecureSum as PatientSecureSum
from fedau_flwr.secure.mod import RECORD
from fedau_flwr.testing.in_process_grid import InProcessGrid
from fedau_flwr.wire.records import encode

CLIENTS = 6
SIZE = 20_000
SecureSum = functools.partial(PatientSecureSum, exchange_timeout=0.02)


class Nodes(InProcessGrid):
    """Clients with updates of a norm that a test chooses; what trained is noted, mask aside."""

    def __init__(self, length=0.0, **options):
        self.length = length
        self.sent = []
        self.deaf = False

        def note(message, context, call_next):
            reply = call_next(message, context)
            if not reply.has_error():
                self.sent.append(reply.content["arrays"]["x"].numpy())
            return reply

        weighting = FedAUMod(UnitWeighting())
        app = ClientApp(mods=[SecureSumMod(**options), note, weighting])

        @app.train()
        def train(message: Message, context: Context) -> Message:
            x = message.content["arrays"]["x"].numpy()
            x = x + np.float32(self.length / math.sqrt(x.size))
            return Message(RecordDict({"arrays": encode({"x": x})}), reply_to=message)

        super().__init__(app, CLIENTS)

    def push_messages(self, messages):
        messages = list(messages)
        if self.deaf and any("survivors" in m.content.get(RECORD, {}) for m in messages):
            return [m.metadata.message_id for m in messages]
        return super().push_messages(messages)

    def play(self, strategy, number=1, size=SIZE):
        model = encode({"x": np.zeros(size, np.float32)})
        messages = strategy.configure_train(number, model, ConfigRecord(), self)
        arrays, _ = strategy.aggregate_train(number, list(self.send_and_receive(messages)))
        return arrays["x"].numpy() * CLIENTS


def variance_within(values, variance, sigmas=5):
    return abs(values.var() - variance) < sigmas * variance * math.sqrt(2 / values.size)


def test_a_participant_does_not_see_through_its_own_share():
    """Four of six can unmask a sum: of four shares one is known, and three have to be enough."""
    grid = Nodes()
    strategy = FedAU(CLIENTS, privacy=GaussianPrivacy(0.5, 2.0), summation=SecureSum())
    total = grid.play(strategy)
    # All six are in the sum; two of them might not have been.
    unseen = total - grid.sent[0]
    assert variance_within(total, 6 / 3)
    assert variance_within(unseen, 5 / 3)
    four = np.sum(grid.sent[:4], axis=0)
    assert variance_within(four - grid.sent[0], 1.0)


@pytest.mark.parametrize(
    ("client", "server", "share"), [(0, 0, 1 / 4), (0, 1, 1 / 3), (2, 1, 1 / 2), (1, 2, 1 / 2)]
)
def test_the_larger_number_of_colluders_counts(client, server, share):
    grid = Nodes(colluding=client)
    summation = SecureSum(colluding=server)
    grid.play(FedAU(CLIENTS, privacy=GaussianPrivacy(0.5, 2.0), summation=summation))
    assert variance_within(grid.sent[0], share)


def test_both_epsilons_are_reported(caplog):
    caplog.set_level("INFO", "flwr.fedau")
    budget = PrivacyBudget(8.0, 1e-5)
    summation = SecureSum(fixed_point=FixedPoint(value_range=64.0))
    strategy = FedAU(CLIENTS, privacy=GaussianPrivacy(1.0, 2.0, budget=budget), summation=summation)
    grid = Nodes()
    for number in (1, 2):
        grid.play(strategy, number, size=4)
    outsiders, participants = strategy.summation.spent()
    assert participants == budget.spent == epsilon_of(1e-5, math.sqrt(2) / 2)
    assert outsiders == pytest.approx(epsilon_of(1e-5, math.sqrt(2 * 5 / 6) / 2), rel=1e-12)
    assert outsiders < participants
    assert f"ε = {outsiders:.4g} to outsiders, {participants:.4g} to participants" in caplog.text
    resumed = FedAU(
        CLIENTS,
        privacy=GaussianPrivacy(1.0, 2.0, budget=PrivacyBudget(8.0, 1e-5)),
        summation=SecureSum(fixed_point=FixedPoint(value_range=64.0)),
    )
    resumed.load_state_dict(strategy.state_dict())
    assert resumed.summation.spent() == (outsiders, participants)


def test_over_a_plain_sum_both_are_the_same():
    view, budget = OutsidersView(), PrivacyBudget(8.0, 1e-5)
    for clients in (1, 5):
        view.charge(3.0, clients, 0)
        budget.charge(3.0)
    assert view.epsilon(1e-5) == budget.spent
    assert OutsidersView().epsilon(1e-5) == 0.0


def test_a_void_round_costs_once_masked_vectors_exist():
    budget = PrivacyBudget(8.0, 1e-5)
    summation = SecureSum(fixed_point=FixedPoint(value_range=64.0))
    strategy = FedAU(CLIENTS, privacy=GaussianPrivacy(1.0, 2.0, budget=budget), summation=summation)
    grid = Nodes()
    grid.deaf = True
    assert not grid.play(strategy, size=4).any()
    assert len(grid.sent) == CLIENTS
    assert budget.spent == epsilon_of(1e-5, 1 / 2)
    # Without vectors there is nothing to charge.
    grid.silent = set(grid.contexts)
    grid.play(strategy, 2, size=4)
    assert budget.spent == epsilon_of(1e-5, 1 / 2)


def adaptive(norm, **options):
    return AdaptiveNorm(norm=norm, learning_rate=1.0, bit_noise=0.3, **options)


@pytest.mark.parametrize(("length", "start"), [(1e6, 3.0), (1e-9, 0.02)])
def test_an_adaptive_norm_stays_on_the_grid_and_comes_back(length, start):
    """Norms beyond the grid, and norms far below it: nobody could contribute ever again."""
    grid = Nodes(length)
    privacy = GaussianPrivacy(adaptive(start), 0.5)
    fixed_point = FixedPoint(value_range=16.0, bits=16)
    strategy = FedAU(CLIENTS, privacy=privacy, summation=SecureSum(fixed_point=fixed_point))
    for number in range(1, 7):
        grid.sent.clear()
        grid.play(strategy, number, size=16)
        assert len(grid.sent) == CLIENTS
    # Four of six can unmask, one of them knows its share.
    highest = 16.0 / (1 + 8 * privacy.sum_std / privacy.norm / math.sqrt(3))
    assert privacy.norm < highest * math.e
    grid.length = 1.0
    for number in range(7, 19):
        grid.play(strategy, number, size=16)
    assert 0.3 < privacy.norm < 3.0


def test_a_fixed_norm_is_left_as_it_is():
    asked = Preparation(norm=1e6, noise_std=1e6, grid=FixedPoint())
    assert asked.fitted(10, [3]) is asked


def test_the_bit_of_an_adaptive_norm_has_to_be_on_the_grid():
    """Rounded to a step of 1, a bit of 1/2 would change the sum by twice what it is charged for."""
    coarse = FixedPoint(value_range=256.0, bits=9)
    assert coarse.step == 1.0
    norm = AdaptiveNorm(norm=16.0, bit_noise=10.0)
    with pytest.raises(ValueError, match=r"the bit of an adaptive norm is 1/2, .* step 1\.0"):
        FedAU(
            CLIENTS,
            privacy=GaussianPrivacy(norm, 1.0),
            summation=SecureSum(fixed_point=coarse),
        )
    asked = Preparation(norm=16.0, noise_std=16.0, bit_std=10.0, grid=coarse)
    with pytest.raises(ValueError, match=r"step is 1\.0, but must be at most 1/2"):
        asked.check_grid()
    fine = Preparation(norm=16.0, noise_std=16.0, bit_std=10.0, grid=FixedPoint(value_range=256.0))
    fine.check_grid()


def test_a_cohort_that_shrinks_loses_one_round_at_most():
    """Fewer clients have larger shares, which a norm at the edge of the grid does not allow."""
    grid = Nodes(1e6)
    privacy = GaussianPrivacy(adaptive(4.0), 0.5)
    fixed_point = FixedPoint(value_range=16.0, bits=16)
    strategy = FedAU(CLIENTS, privacy=privacy, summation=SecureSum(fixed_point=fixed_point))
    for number in range(1, 4):
        grid.play(strategy, number, size=16)
    grid.silent = set(list(grid.contexts)[:3])
    trained = []
    for number in range(4, 8):
        grid.sent.clear()
        grid.play(strategy, number, size=16)
        trained.append(len(grid.sent))
    assert trained == [0, 3, 3, 3]
