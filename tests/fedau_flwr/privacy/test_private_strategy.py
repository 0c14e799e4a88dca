"""Strategies with differential privacy, over plain and secure sums."""

import math

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp

from fedau_flwr import MIFA, FedAU, FedAUMixin, FedAUMod, UnitWeighting
from fedau_flwr.client.preparation import WITHIN, Preparation
from fedau_flwr.privacy import AdaptiveNorm, GaussianPrivacy, PrivacyBudget, l2_norm
from fedau_flwr.privacy.gdp import composed, epsilon_of
from fedau_flwr.privacy.private_sum import PrivateSum
from fedau_flwr.secure import FixedPoint, SecureSum, SecureSumMod
from fedau_flwr.server.summation import PlainSum
from fedau_flwr.testing.in_process_grid import InProcessGrid
from fedau_flwr.wire.parts import PARTS_RECORD, scalar
from fedau_flwr.wire.records import encode
from fedau_flwr.wire.requests import Request

CLIENTS = 6
SIZE = 20_000


def federation(length=0.0, *, secure=False, **options) -> InProcessGrid:
    """Return clients whose updates have the L2 norm `length` times their number, from 1 on."""
    app = ClientApp(mods=[SecureSumMod(**options), FedAUMod()] if secure else [FedAUMod()])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        x = message.content["arrays"]["x"].numpy()
        number = 1 + int(context.node_config["partition-id"])
        x = x + np.float32(length * number / math.sqrt(x.size))
        return Message(RecordDict({"arrays": encode({"x": x})}), reply_to=message)

    return InProcessGrid(app, CLIENTS)


def one_round(strategy, grid, number=1, size=SIZE, silent=0):
    model = encode({"x": np.zeros(size, np.float32)})
    messages = strategy.configure_train(number, model, ConfigRecord(), grid)
    grid.replies = list(grid.send_and_receive(messages[silent:]))
    arrays, _ = strategy.aggregate_train(number, list(grid.replies))
    return arrays["x"].numpy()


def within_five_sigma(values, variance):
    return abs(values.var() - variance) < 5 * variance * math.sqrt(2 / values.size)


def test_central_noise_on_the_sum():
    strategy = FedAU(CLIENTS, privacy=GaussianPrivacy(0.5, 2.0))
    noise = one_round(strategy, federation()) * CLIENTS
    assert within_five_sigma(noise, 1.0)


@pytest.mark.parametrize("silent", [0, 2])
def test_noise_split_over_the_clients_of_a_secure_sum(silent):
    strategy = FedAU(CLIENTS, privacy=GaussianPrivacy(0.5, 2.0), summation=SecureSum())
    grid = federation(secure=True)
    noise = one_round(strategy, grid, silent=silent) * CLIENTS
    # Four of six clients can unmask a sum, and one knows its own share: each adds a third.
    assert within_five_sigma(noise, (CLIENTS - silent) / 3)


@pytest.mark.parametrize("memory", [False, True])
def test_no_contribution_exceeds_the_norm_whatever_its_weight(memory):
    strategy = (MIFA if memory else FedAU)(CLIENTS, privacy=GaussianPrivacy(2.5, 1.0))
    grid = federation(1.0)
    # Weights of the clients grow while they are away.
    one_round(strategy, grid, 1)
    one_round(strategy, grid, 40)
    sent = [l2_norm([reply.content["arrays"]["x"].numpy()]) for reply in grid.replies]
    assert len(sent) == CLIENTS
    assert max(sent) <= 2.5
    assert sorted(sent)[-1] == pytest.approx(2.5, rel=1e-5)


@pytest.mark.parametrize("secure", [False, True])
def test_the_norm_adapts_to_the_bits_in_the_sum(secure):
    # Norms 1 to 6: two of six are within 2.5.
    adaptive = AdaptiveNorm(norm=2.5, quantile=0.5, learning_rate=0.2, bit_noise=0.01)
    privacy = GaussianPrivacy(adaptive, 0.01)
    summation = SecureSum(fixed_point=FixedPoint(value_range=4.0)) if secure else None
    strategy = FedAU(CLIENTS, privacy=privacy, summation=summation)
    grid = federation(1.0, secure=secure)
    model = one_round(strategy, grid)
    assert privacy.norm == pytest.approx(2.5 * math.exp(-0.2 * (2 / 6 - 0.5)), rel=2e-3)
    # The contributions of norms 1, 2 and four times 2.5 point the same way.
    assert model.sum() / math.sqrt(SIZE) * CLIENTS == pytest.approx(13.0, abs=0.3)
    if not secure:
        bits = [float(reply.content[PARTS_RECORD][WITHIN].numpy()) for reply in grid.replies]
        assert sorted(bits) == [-0.5] * 4 + [0.5] * 2


def test_bits_have_their_own_noise_at_the_server():
    privacy = GaussianPrivacy(AdaptiveNorm(norm=1.0, bit_noise=3.0), 1.0)
    summation = PrivateSum(PlainSum(), privacy)
    bits = [summation._noisy({WITHIN: scalar(0.0)})[WITHIN][""] for _ in range(5000)]
    assert within_five_sigma(np.array(bits), 9.0)


def test_bits_have_their_own_share_of_noise_at_the_clients():
    grid = FixedPoint(value_range=64.0)
    asked = Preparation(norm=1.0, noise_std=1.0, bit_std=3.0, grid=grid)
    share = Preparation.from_config(asked.to_config()).shared(4)
    request = Request(1, "t")
    sent = [share.apply({"update": {"x": np.zeros(2, np.float32)}}, request) for _ in range(5000)]
    assert within_five_sigma(np.array([parts[WITHIN][""] for parts in sent]) - 0.5, 9.0 / 4)
    assert within_five_sigma(np.array([parts["update"]["x"] for parts in sent]), 1.0 / 4)


def test_the_run_stops_before_the_round_that_would_exceed_the_budget(caplog):
    budget = PrivacyBudget(1.5, 1e-5)
    allowed = budget.rounds(8.0)
    strategy = FedAU(CLIENTS, privacy=GaussianPrivacy(1.0, 8.0, budget=budget))
    assert 1 < allowed < 20
    result = strategy.start(
        federation(), encode({"x": np.zeros(3, np.float32)}), num_rounds=allowed + 5, timeout=10
    )
    assert strategy.ledger.round == allowed
    assert f"room for {allowed} of {allowed + 5} rounds" in caplog.text
    assert budget.spent <= 1.5
    assert not budget.allows(8.0)
    metrics = result.train_metrics_clientapp[allowed]
    assert (metrics["epsilon"], metrics["epsilon_left"]) == (budget.spent, 1.5 - budget.spent)
    # A loop of one's own that goes on regardless asks nobody.
    grid = federation()
    model = strategy.configure_train(allowed + 1, result.arrays, ConfigRecord(), grid)
    assert model == []
    after, _ = strategy.aggregate_train(allowed + 1, [])
    assert np.array_equal(after["x"].numpy(), result.arrays["x"].numpy())


def test_a_round_without_a_sum_costs_nothing():
    budget = PrivacyBudget(8.0, 1e-5)
    strategy = FedAU(CLIENTS, privacy=GaussianPrivacy(1.0, 8.0, budget=budget))
    one_round(strategy, federation(), silent=CLIENTS)
    assert budget.spent == 0.0


def test_a_checkpoint_holds_the_norm_and_what_was_spent():
    def build():
        adaptive = AdaptiveNorm(norm=1.0, bit_noise=2.0)
        budget = PrivacyBudget(50.0, 1e-5)
        return FedAU(CLIENTS, privacy=GaussianPrivacy(adaptive, 1.0, budget=budget))

    strategy, resumed = build(), build()
    one_round(strategy, federation(2.0))
    resumed.load_state_dict(strategy.state_dict())
    assert resumed.summation.privacy.norm == strategy.summation.privacy.norm != 1.0
    spent = [one.summation.privacy.budget.spent for one in (resumed, strategy)]
    assert spent[0] == spent[1] > 0


def reasons(grid):
    return {reply.error.reason for reply in grid.replies}


def test_noise_below_the_grid_is_refused_by_the_clients():
    # Just above four steps on the sum; a share of it is that by the root of three.
    coarse = SecureSum(fixed_point=FixedPoint(value_range=8.0, bits=8))
    strategy = FedAU(CLIENTS, privacy=GaussianPrivacy(1.0, 0.26), summation=coarse)
    grid = federation(secure=True)
    assert not one_round(strategy, grid, size=2).any()
    (reason,) = reasons(grid)
    assert reason.startswith("refused: the contribution cannot be rounded: noise is 0.1501")
    assert reason.endswith("but must be at least four steps of the grid (0.25); use more bits")


def test_noise_that_cannot_fit_the_grid_is_refused_at_construction():
    coarse = SecureSum(fixed_point=FixedPoint(value_range=8.0, bits=8))
    with pytest.raises(
        ValueError, match=r"noise on the sum is 0.24, but must be at least four steps"
    ):
        FedAU(CLIENTS, privacy=GaussianPrivacy(1.0, 0.24), summation=coarse)
    adaptive = AdaptiveNorm(norm=1.0, bit_noise=0.2)
    with pytest.raises(ValueError, match=r"bit_noise on the sum is 0.2, but"):
        FedAU(CLIENTS, privacy=GaussianPrivacy(adaptive, 0.3), summation=coarse)
    narrow = SecureSum(fixed_point=FixedPoint(value_range=1.0, max_cohort=16))
    with pytest.raises(ValueError, match=r"value_range is 1.0, but must be at least 1.5, the norm"):
        FedAU(CLIENTS, privacy=GaussianPrivacy(0.5, 1.0), summation=narrow)
    FedAU(CLIENTS, privacy=GaussianPrivacy(1.0, 0.24))


def test_noise_that_would_be_cut_off_is_refused_by_the_clients():
    # A third of the variance each: 0.5 + 8 / √3 is more than 4.
    narrow = SecureSum(fixed_point=FixedPoint(value_range=4.0))
    strategy = FedAU(CLIENTS, privacy=GaussianPrivacy(0.5, 2.0), summation=narrow)
    grid = federation(secure=True)
    assert not one_round(strategy, grid, size=2).any()
    (reason,) = reasons(grid)
    assert "value_range is 4.0, but must be at least 5.1188" in reason
    assert reason.endswith("the norm and 8 standard deviations of noise")


@pytest.mark.parametrize(
    ("privacy", "multiplier"),
    [
        (None, 0.0),
        (GaussianPrivacy(0.5, 1.5), 1.5),
        # What telling the bits costs is taken off again.
        (GaussianPrivacy(AdaptiveNorm(norm=0.5, bit_noise=1.0), 1.5), 1.5),
    ],
)
def test_a_client_has_a_minimum_of_noise_of_its_own(privacy, multiplier):
    def run(least):
        grid = federation(secure=True, min_noise_multiplier=least)
        strategy = FedAU(CLIENTS, privacy=privacy, summation=SecureSum())
        one_round(strategy, grid, size=2)
        return strategy, grid

    strategy, grid = run(multiplier + 0.01)
    assert reasons(grid) == {
        f"refused: a noise multiplier of {multiplier:g} is below this client's "
        f"min_noise_multiplier={multiplier + 0.01}"
    }
    assert set(strategy.ledger.counted.values()) == {0}
    strategy, _ = run(multiplier * (1 - 1e-12))
    assert set(strategy.ledger.counted.values()) == {1}


def test_noise_suffices_without_that_of_colluding_clients():
    strategy = FedAU(CLIENTS, privacy=GaussianPrivacy(0.5, 1.0), summation=SecureSum())
    grid = federation(secure=True, colluding=2)
    noise = one_round(strategy, grid, silent=2) * CLIENTS
    # Four clients are left, of which any two have the noise that was promised.
    assert within_five_sigma(noise, 2 * 0.25)


@pytest.mark.parametrize(
    "options",
    [
        {"min_noise_multiplier": -1.0},
        {"min_noise_multiplier": math.nan},
        {"min_noise_multiplier": math.inf},
        {"colluding": 3},
        {"colluding": -1},
    ],
)
def test_impossible_settings_of_a_client_are_refused_by_name(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} is "):
        SecureSumMod(**options)


def test_an_adaptive_norm_follows_numpy_clients_too():
    class Client(FedAUMixin, NumPyClient):
        fedau_weighting = UnitWeighting()

        def __init__(self, length):
            self.length = length

        def fit(self, parameters, config):
            return [parameters[0] + self.length / math.sqrt(SIZE)], 17, {}

    def client_fn(context):
        length = np.float32(context.node_config["partition-id"] + 1)
        return Client(length).with_context(context).to_client()

    # Norms 1 to 6: two of six are within 2.5, as above.
    adaptive = AdaptiveNorm(norm=2.5, quantile=0.5, learning_rate=0.2, bit_noise=0.01)
    privacy = GaussianPrivacy(adaptive, 0.01)
    strategy = FedAU(CLIENTS, privacy=privacy, numpy_clients=True)
    model = one_round(strategy, InProcessGrid(ClientApp(client_fn=client_fn), CLIENTS))
    assert strategy.last_round.counted == CLIENTS
    assert privacy.norm == pytest.approx(2.5 * math.exp(-0.2 * (2 / 6 - 0.5)), rel=2e-3)
    assert model.sum() / math.sqrt(SIZE) * CLIENTS == pytest.approx(13.0, abs=0.3)


def test_separation_and_exact_accounting_under_a_secure_sum():
    budget = PrivacyBudget(8.0, 1e-5, separation=3)
    privacy = GaussianPrivacy(0.5, 2.0, budget=budget)
    strategy = FedAU(CLIENTS, privacy=privacy, summation=SecureSum())
    grid = federation(secure=True)
    counted = []
    for number in range(1, 5):
        one_round(strategy, grid, number)
        counted.append(strategy.last_round.counted)
    assert counted == [CLIENTS, 0, 0, CLIENTS]
    assert budget.spent == epsilon_of(1e-5, composed(2.0, 2))
