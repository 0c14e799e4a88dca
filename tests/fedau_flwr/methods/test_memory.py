"""Each method of SPEC section 3 against a loop of its formula."""

import numpy as np
import pytest

from fedau_flwr import (
    MIFA,
    FedAU,
    FedAUMod,
    FedAUWeighting,
    FedVARP,
    InverseProbabilityWeighting,
    UnitWeighting,
)
from tests.fedau_flwr.federation import Federation, record, training_app, values

N, ROUNDS, ETA = 6, 50, 0.7
PATH = np.random.default_rng(3).random((ROUNDS, N)) < 0.25
PATH[[4, 17, 18]] = False
P = np.linspace(0.1, 0.9, N)


def update(client, x, server_round):
    """A deterministic Δ that differs by client and round."""
    return 0.1 * (np.sin(client + x) - x) + 0.01 * np.cos(server_round * (client + 1))


def train(client, arrays, server_round):
    return {"x": arrays["x"] + update(client, arrays["x"], server_round)}


def fedau(cutoff):
    x, m, s, w = np.ones(3), np.zeros(N), np.zeros(N), np.ones(N)
    for t in range(ROUNDS):
        total = sum(w[n] * update(n, x, t + 1) for n in range(N) if PATH[t, n])
        for n in range(N):
            s[n] += 1
            if PATH[t, n] or s[n] == cutoff:
                w[n] = s[n] if m[n] == 0 else (m[n] * w[n] + s[n]) / (m[n] + 1)
                m[n], s[n] = m[n] + 1, 0
        x = x + ETA * total / N
    return x


def average_participating():
    x = np.ones(3)
    for t in range(ROUNDS):
        if PATH[t].any():
            deltas = [update(n, x, t + 1) for n in range(N) if PATH[t, n]]
            x = x + ETA * sum(deltas) / len(deltas)
    return x


def fixed_weights(weights):
    x = np.ones(3)
    for t in range(ROUNDS):
        x = x + ETA * sum(weights[n] * update(n, x, t + 1) for n in range(N) if PATH[t, n]) / N
    return x


def mifa():
    """The authors' form: the server holds the last update of every client."""
    x, last = np.ones(3), np.zeros((N, 3))
    for t in range(ROUNDS):
        for n in np.flatnonzero(PATH[t]):
            last[n] = update(n, x, t + 1)
        x = x + ETA * last.mean(0)
    return x


def fedvarp():
    """The authors' form: participants' change against their last, plus the mean of all last."""
    x, last = np.ones(3), np.zeros((N, 3))
    for t in range(ROUNDS):
        here = np.flatnonzero(PATH[t])
        if len(here):
            new = {n: update(n, x, t + 1) for n in here}
            step = sum(new[n] - last[n] for n in here) / len(here) + last.mean(0)
            for n in here:
                last[n] = new[n]
            x = x + ETA * step
    return x


def play(strategy, mod_of, path=PATH, lost=None, node_config=None):
    def mod(message, context, call_next):
        return mod_of(context.node_config["partition-id"])(message, context, call_next)

    grid = Federation(training_app(train, [mod]), N, node_config=node_config)
    model = record(x=np.ones(3))
    for t, here in enumerate(path):
        grid.present = set(np.flatnonzero(here).tolist())
        grid.lost = set() if lost is None else set(np.flatnonzero(lost[t]).tolist())
        model = grid.play(strategy, t + 1, model)
    return grid, values(model)["x"]


def always(weighting):
    return lambda client: FedAUMod(weighting)


METHODS = {
    "fedau-7": (FedAU, {}, always(FedAUWeighting(7)), lambda: fedau(7)),
    "fedau-inf": (FedAU, {}, always(FedAUWeighting(None)), lambda: fedau(None)),
    "average-participating": (
        FedAU,
        {"divisor": "participants"},
        always(UnitWeighting()),
        average_participating,
    ),
    "average-all": (FedAU, {}, always(UnitWeighting()), lambda: fixed_weights(np.ones(N))),
    "known-statistics": (
        FedAU,
        {},
        lambda client: FedAUMod(InverseProbabilityWeighting(P[client])),
        lambda: fixed_weights(1 / P),
    ),
    "mifa": (MIFA, {}, always(FedAUWeighting()), mifa),
    "fedvarp": (FedVARP, {}, always(FedAUWeighting()), fedvarp),
}


@pytest.mark.parametrize("name", METHODS)
def test_equals_the_formula(name):
    strategy, options, mod_of, formula = METHODS[name]
    _, x = play(strategy(N, server_learning_rate=ETA, **options), mod_of)
    np.testing.assert_allclose(x, formula(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("strategy", [MIFA, FedVARP])
def test_lost_replies_do_not_part_the_memories(strategy):
    """With losses, the method runs as if the lost clients had not come."""
    lost = PATH & (np.random.default_rng(8).random(PATH.shape) < 0.3)
    run = strategy(N, server_learning_rate=ETA)
    _, x = play(run, always(UnitWeighting()), lost=lost)
    honest = strategy(N, server_learning_rate=ETA)
    _, expected = play(honest, always(UnitWeighting()), path=PATH & ~lost)
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(run.mean["x"], honest.mean["x"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("strategy", [MIFA, FedVARP])
def test_checkpoints_hold_the_memory(strategy, tmp_path):
    config = {"fedau-state-dir": str(tmp_path)}
    first = strategy(N, server_learning_rate=ETA)
    first.checkpointed(0)
    grid, x = play(first, always(UnitWeighting()), path=PATH[:20], node_config=config)
    second = strategy(N, server_learning_rate=ETA)
    second.load_state_dict(first.state_dict())
    model = record(x=x)
    for t in range(20, ROUNDS):
        grid.present = set(np.flatnonzero(PATH[t]).tolist())
        grid.lost = set()
        model = grid.play(second, t + 1, model)
    expected = METHODS[strategy.__name__.lower()][3]()
    np.testing.assert_allclose(values(model)["x"], expected, rtol=0, atol=1e-6)


def test_a_client_without_its_memory_refuses():
    strategy = MIFA(1)
    grid = Federation(training_app(train), 1)
    model = grid.play(strategy, 1, record(x=np.ones(3)))
    (context,) = grid.contexts.values()
    context.state.clear()
    grid.play(strategy, 2, model)
    assert "cannot take part in this training any more" in grid.replies[0].error.reason
    assert strategy.ledger.counted == {context.node_id: 1}


def test_mifa_moves_on_its_memory_when_nobody_comes():
    strategy = MIFA(2)
    grid = Federation(training_app(lambda c, a, r: {"x": a["x"] + 1}), 1)
    model = grid.play(strategy, 1, record(x=np.zeros(1)))
    grid.present = set()
    model = grid.play(strategy, 2, model)
    assert values(model)["x"] == 1.0


@pytest.mark.parametrize("name", ["divisor", "groups"])
def test_options_that_a_memory_has_no_use_for(name):
    with pytest.raises(ValueError, match=f"{name} is given, but FedVARP has no {name}"):
        FedVARP(3, **{name: {}})
