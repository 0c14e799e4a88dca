import numpy as np
import pytest

from fedau_flwr import FedAUAdagrad, FedAUAdam, FedAUAvgM, FedAUYogi
from tests.fedau_flwr.federation import Federation, record, training_app, values

N, ROUNDS = 4, 12
PATH = np.random.default_rng(3).random((ROUNDS, N)) < 0.5
PATH[[3, 7]] = False
ETA, BETA_1, BETA_2, TAU = 0.3, 0.8, 0.9, 1e-2


def mean_update(x, t):
    return sum((PATH[t, n] * 0.1 * (n - x) for n in range(N)), np.zeros_like(x)) / N


def adaptive(second_moment, corrected=False):
    """Reddi et al. with Flower's bias correction where it has one; no step when nobody comes."""

    def run(eta=ETA, beta_1=BETA_1, tau=TAU):
        x, m, v = np.ones(2), 0.0, 0.0
        for t in range(ROUNDS):
            if not PATH[t].any():
                continue
            delta = mean_update(x, t)
            m = beta_1 * m + (1 - beta_1) * delta
            v = second_moment(v, delta**2)
            rate = eta
            if corrected:
                rate *= np.sqrt(1 - BETA_2 ** (t + 2.0)) / (1 - beta_1 ** (t + 2.0))
            x = x + rate * m / (np.sqrt(v) + tau)
        return x

    return run


def momentum(eta=ETA, beta=0.9):
    x, velocity = np.ones(2), None
    for t in range(ROUNDS):
        if not PATH[t].any():
            continue
        step = -mean_update(x, t)
        velocity = step if velocity is None else beta * velocity + step
        x = x - eta * velocity
    return x


CASES = {
    FedAUAdam: (
        {"eta": ETA, "beta_1": BETA_1, "beta_2": BETA_2, "tau": TAU},
        adaptive(lambda v, d2: BETA_2 * v + (1 - BETA_2) * d2, corrected=True),
    ),
    FedAUYogi: (
        {"eta": ETA, "beta_1": BETA_1, "beta_2": BETA_2, "tau": TAU},
        adaptive(lambda v, d2: v - (1 - BETA_2) * d2 * np.sign(v - d2)),
    ),
    FedAUAdagrad: (
        {"eta": ETA, "tau": TAU},
        lambda: adaptive(lambda v, d2: v + d2)(beta_1=0.0),
    ),
    FedAUAvgM: ({"server_learning_rate": ETA, "server_momentum": 0.9}, momentum),
}


def play(strategy, model, rounds=range(ROUNDS)):
    def train(client, arrays, server_round):
        x = arrays["x"]
        return {**arrays, "x": x + np.asarray(0.1 * (client - x), x.dtype)}

    from fedau_flwr import FedAUMod, UnitWeighting

    grid = Federation(training_app(train, [FedAUMod(UnitWeighting())]), N)
    for t in rounds:
        grid.present = set(np.flatnonzero(PATH[t]).tolist())
        model = grid.play(strategy, t + 1, model)
    return model


@pytest.mark.parametrize("kind", CASES)
def test_equals_the_formula(kind):
    options, formula = CASES[kind]
    model = play(kind(N, **options), record(x=np.ones(2), n=np.array(3)))
    np.testing.assert_allclose(values(model)["x"], formula(), rtol=0, atol=1e-9)
    assert values(model)["n"] == 3


@pytest.mark.parametrize("kind", CASES)
def test_types_are_kept(kind):
    options, formula = CASES[kind]
    model = play(kind(N, **options), record(x=np.ones(2, np.float32), n=np.array(3, np.int32)))
    assert values(model)["x"].dtype == np.float32
    assert values(model)["n"].dtype == np.int32
    np.testing.assert_allclose(values(model)["x"], formula(), rtol=1e-4)


@pytest.mark.parametrize("kind", CASES)
def test_checkpoints_hold_the_moments(kind):
    options, formula = CASES[kind]
    first = kind(N, **options)
    model = play(first, record(x=np.ones(2)), range(6))
    second = kind(N, **options)
    second.load_state_dict(first.state_dict())
    model = play(second, model, range(6, ROUNDS))
    np.testing.assert_allclose(values(model)["x"], formula(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", CASES)
def test_defaults_are_ours_and_flowers(kind):
    strategy = kind(N)
    assert (strategy.min_train_nodes, strategy.min_available_nodes) == (0, 0)
    assert strategy.fraction_evaluate == 0.0
    assert kind.__name__ in repr(kind)


def test_a_second_learning_rate_is_refused():
    with pytest.raises(ValueError, match="server_learning_rate is given, but FedAUAdam has its"):
        FedAUAdam(N, server_learning_rate=0.1)
    with pytest.raises(ValueError, match="momentum is given, but FedAUAdam has no momentum"):
        FedAUAdam(N, momentum=0.1)
