"""A resumed server asks for a round again: two sums must not give the one client away that left.

Local training repeats itself in (seed, client, round). With six clients and then five, the
difference of two secure sums of the same round on the same model was the sixth client's update, to
the rounding of the grid.
"""

import functools

import numpy as np
import pytest
from flwr.app import ConfigRecord

from fedau_flwr import FedAU, FedAUMod, GaussianPrivacy, UnitWeighting
from fedau_flwr.secure import FixedPoint, SecureSumMod
from fedau_flwr.secure import SecureSum as PatientSecureSum
from tests.fedau_flwr.federation import Federation, record, training_app

CLIENTS = 6
SIZE = 2000
VICTIM = 5
SecureSum = functools.partial(PatientSecureSum, exchange_timeout=0.02)


def update(client, server_round):
    return np.random.default_rng((1, client, server_round)).normal(0, 0.1, SIZE)


def train(client, arrays, server_round):
    return {"x": arrays["x"] + update(client, server_round).astype(np.float32)}


class Attack:
    """A server that is resumed from its checkpoint, with processes that were all restarted."""

    def __init__(self, tmp_path, privacy=None):
        self.config = {"fedau-state-dir": str(tmp_path)}
        self.privacy = privacy
        self.app = training_app(train, [SecureSumMod(), FedAUMod(UnitWeighting())])
        self.state = None

    def sum_of(self, present, rounds, model=0.0):
        """Run an attempt, and return the sum over the last of its rounds and who is in it."""
        grid = Federation(self.app, CLIENTS, node_config=self.config)
        strategy = FedAU(
            CLIENTS,
            summation=SecureSum(fixed_point=FixedPoint(value_range=64.0)),
            privacy=self.privacy,
        )
        if self.state is None:
            strategy.checkpointed(0)
            self.state = strategy.state_dict()
        else:
            strategy.load_state_dict(self.state)
        grid.present = set(present)
        for number in rounds:
            before = record(x=np.full(SIZE, model, np.float32))
            messages = strategy.configure_train(number, before, ConfigRecord(), grid)
            replies = grid.send_and_receive(messages, timeout=60)
            after, _ = strategy.aggregate_train(number, replies)
        total = (after["x"].numpy().astype(np.float64) - model) * CLIENTS
        return total, [node for node, last in strategy.ledger.counted.items() if last == number]


def distance(guess):
    """Return how far a guess is from what the victim trained, in units of its length."""
    wanted = update(VICTIM, 1)
    return np.linalg.norm(guess - wanted) / np.linalg.norm(wanted)


EVERYONE = range(CLIENTS)
OTHERS = range(CLIENTS - 1)


@pytest.mark.parametrize("model", [0.0, 1e-6], ids=["the same model", "one changed a little"])
def test_a_round_is_not_answered_again_without_noise(tmp_path, model):
    attack = Attack(tmp_path)
    first, counted = attack.sum_of(EVERYONE, [1])
    assert len(counted) == CLIENTS
    second, counted = attack.sum_of(OTHERS, [1], model)
    assert not counted
    # Nothing but the sum over all is there to guess from.
    assert np.abs(second).max() < 1e-12
    assert distance(first - second) > 1.5


def test_later_rounds_go_on(tmp_path):
    attack = Attack(tmp_path)
    attack.sum_of(EVERYONE, [1, 2])
    total, counted = attack.sum_of(OTHERS, [1, 2, 3])
    assert len(counted) == 5
    expected = sum(update(client, 3) for client in OTHERS)
    np.testing.assert_allclose(total, expected, atol=5 * FixedPoint(value_range=64.0).step)


def test_clients_that_had_not_answered_make_up_the_round(tmp_path):
    attack = Attack(tmp_path)
    attack.sum_of([0, 1, 2], [1])
    total, counted = attack.sum_of(EVERYONE, [1])
    assert len(counted) == 3
    expected = sum(update(client, 1) for client in (3, 4, 5))
    np.testing.assert_allclose(total, expected, atol=5 * FixedPoint(value_range=64.0).step)


def test_with_noise_of_its_own_a_round_is_answered_again(tmp_path):
    norm = 8.0
    attack = Attack(tmp_path, GaussianPrivacy(norm, 1.0))
    first, counted = attack.sum_of(EVERYONE, [1])
    assert len(counted) == CLIENTS
    second, counted = attack.sum_of(OTHERS, [1])
    assert len(counted) == CLIENTS - 1
    # Each value of the difference has the noise of both sums, eighty times the update's size.
    assert distance(first - second) > 80
    assert (first - second - update(VICTIM, 1)).std() > np.sqrt(2) * norm


def test_a_promise_of_noise_helps_once(tmp_path):
    """A server that asks with noise first, and then without, has one sum without, and no other."""
    attack = Attack(tmp_path, GaussianPrivacy(5.0, 1.0))
    attack.sum_of(EVERYONE, [1])
    attack.privacy = None
    assert len(attack.sum_of(OTHERS, [1])[1]) == CLIENTS - 1
    assert not attack.sum_of(OTHERS, [1])[1]


def test_next_to_no_noise_is_none(tmp_path):
    """A norm that clips nobody, and noise of a few steps: the server's word is not enough."""
    attack = Attack(tmp_path, GaussianPrivacy(50.0, 0.0002))
    assert len(attack.sum_of(EVERYONE, [1])[1]) == CLIENTS
    assert not attack.sum_of(OTHERS, [1])[1]
