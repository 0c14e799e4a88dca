"""Each method against a loop of its formula, with lost replies, lost deliveries and resumes."""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from flwr.serverapp.strategy import FedAvg

import fedau_flwr
from fedau_flwr import (
    MIFA,
    Amplified,
    FedAU,
    FedAUAdam,
    FedAUMod,
    FedAUWeighting,
    FedAWE,
    FedStale,
    FedVARP,
    FrequencyWeighting,
    InverseProbabilityWeighting,
    MimiC,
    UnitWeighting,
)
from fedau_flwr.weight_state import WeightState
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


def average_participating():
    x = np.ones(3)
    for t in range(ROUNDS):
        if PATH[t].any():
            deltas = [update(n, x, t + 1) for n in range(N) if PATH[t, n]]
            x = x + ETA * sum(deltas) / len(deltas)
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


def algorithm_2(cutoff):
    """Return the weight of every client in every round."""
    m, s, w, weights = np.zeros(N), np.zeros(N), np.ones(N), []
    for t in range(ROUNDS):
        weights.append(w.copy())
        for n in range(N):
            s[n] += 1
            if PATH[t, n] or s[n] == cutoff:
                w[n] = s[n] if m[n] == 0 else (m[n] * w[n] + s[n]) / (m[n] + 1)
                m[n], s[n] = m[n] + 1, 0
    return np.array(weights)


def frequency():
    counts = np.vstack([np.zeros(N), np.cumsum(PATH, axis=0)])[:-1]
    t = np.arange(ROUNDS)[:, None]
    return weighted(np.where(counts > 0, t / np.maximum(counts, 1), 1.0))


def weighted(weights):
    x = np.ones(3)
    for t in range(ROUNDS):
        x = x + ETA * sum(weights[t, n] * update(n, x, t + 1) for n in range(N) if PATH[t, n]) / N
    return x


def fedstale(beta=0.5):
    """The server holds the last update of every client."""
    x, h, weights = np.ones(3), np.zeros((N, 3)), algorithm_2(50)
    for t in range(ROUNDS):
        new = {n: update(n, x, t + 1) for n in np.flatnonzero(PATH[t])}
        fresh = sum((weights[t, n] * (new[n] - beta * h[n]) for n in new), np.zeros(3))
        x = x + ETA * (beta * h.mean(0) + fresh / N)
        for n, value in new.items():
            h[n] = value
    return x


def fedawe(path=PATH, reached=None):
    """Every client has its model; a newcomer's, and one who was not reached, is the server's."""
    x, own, last = np.ones(3), {}, np.zeros(N)
    for t, here in enumerate(path):
        start = {n: own.get(n, x) for n in np.flatnonzero(here)}
        if start:
            late = {n: (t + 1 - last[n]) * update(n, start[n], t + 1) for n in start}
            x = np.mean([*start.values()], 0) + ETA * np.mean([*late.values()], 0)
        for n in start:
            own.pop(n, None)
            last[n] = t + 1
            if reached is None or reached[t, n]:
                own[n] = x
    return x


def mimic(path=PATH, reached=None):
    x, last, step = np.ones(3), {}, {}
    for t, here in enumerate(path):
        new = {n: update(n, x, t + 1) for n in np.flatnonzero(here)}
        if new:
            sent = [new[n] - last[n] + step[n] if n in step else new[n] for n in new]
            move = ETA * np.mean(sent, 0)
            x = x + move
        for n, value in new.items():
            last[n] = value
            step.pop(n, None)
            if reached is None or reached[t, n]:
                step[n] = move
    return x


def amplified(period, factor):
    x = anchor = np.ones(3)
    for t in range(ROUNDS):
        x = x + ETA * sum(update(n, x, t + 1) for n in range(N) if PATH[t, n]) / N
        if (t + 1) % period == 0:
            x = anchor = anchor + factor * (x - anchor)
    return x


def play(strategy, mod_of, path=PATH, *, lost=None, node_config=None, unreached=None):
    def mod(message, context, call_next):
        return mod_of(context.node_config["partition-id"])(message, context, call_next)

    grid = Federation(training_app(train, [mod]), N, node_config=node_config)
    model = record(x=np.ones(3))
    for t, here in enumerate(path):
        grid.present = set(np.flatnonzero(here).tolist())
        grid.lost = set() if lost is None else set(np.flatnonzero(lost[t]).tolist())
        grid.unreached = set() if unreached is None else set(np.flatnonzero(unreached[t]).tolist())
        model = grid.play(strategy, t + 1, model)
    return grid, values(model)["x"]


def always(weighting):
    return lambda client: FedAUMod(weighting)


METHODS = {
    "fedau-7": (FedAU, {}, always(FedAUWeighting(7)), lambda: weighted(algorithm_2(7))),
    "fedau-inf": (FedAU, {}, always(FedAUWeighting(None)), lambda: weighted(algorithm_2(None))),
    "average-participating": (
        FedAU,
        {"divisor": "participants"},
        always(UnitWeighting()),
        average_participating,
    ),
    "average-all": (FedAU, {}, always(UnitWeighting()), lambda: weighted(np.ones((ROUNDS, N)))),
    "known-statistics": (
        FedAU,
        {},
        lambda client: FedAUMod(InverseProbabilityWeighting(P[client])),
        lambda: weighted(np.tile(1 / P, (ROUNDS, 1))),
    ),
    "mifa": (MIFA, {}, always(FedAUWeighting()), mifa),
    "fedvarp": (FedVARP, {}, always(FedAUWeighting()), fedvarp),
    "frequency": (FedAU, {}, always(FrequencyWeighting()), frequency),
    "fedstale": (FedStale, {}, always(FedAUWeighting()), fedstale),
    "fedawe": (FedAWE, {}, always(FedAUWeighting()), fedawe),
    "mimic": (MimiC, {}, always(FedAUWeighting()), mimic),
    "amplified": (
        lambda n, **options: Amplified(FedAU(n, **options), period=4, factor=1.5),
        {},
        always(UnitWeighting()),
        lambda: amplified(4, 1.5),
    ),
}
REMEMBERING = {
    "mifa": MIFA,
    "fedvarp": FedVARP,
    "fedstale": FedStale,
    "fedawe": FedAWE,
    "mimic": MimiC,
}


@pytest.mark.parametrize("name", METHODS)
def test_equals_the_formula(name):
    formula = METHODS[name][3]
    np.testing.assert_allclose(straight(name), formula(), rtol=0, atol=1e-6)


@cache
def straight(name):
    strategy, options, mod_of, _ = METHODS[name]
    return play(strategy(N, server_learning_rate=ETA, **options), mod_of)[1]


@pytest.mark.parametrize("name", METHODS)
def test_with_lost_replies_it_runs_as_if_their_clients_had_not_come(name):
    """Weights, memories and models of their own change only once a round is counted."""
    lost = PATH & (np.random.default_rng(8).random(PATH.shape) < 0.3)
    strategy, options, mod_of, _ = METHODS[name]
    run, honest = (strategy(N, server_learning_rate=ETA, **options) for _ in range(2))
    _, x = play(run, mod_of, lost=lost)
    _, expected = play(honest, mod_of, path=PATH & ~lost)
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-12)
    if hasattr(run, "mean"):
        np.testing.assert_allclose(run.mean["x"], honest.mean["x"], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "stored"),
    [*((name, True) for name in REMEMBERING), ("fedawe", False), ("mimic", False),
     ("fedau-7", False), ("frequency", True), ("amplified", False)],
)  # fmt: skip
def test_a_resumed_server_goes_on_bit_for_bit(name, stored, tmp_path):
    """It dies five rounds after its checkpoint, and all clients go back with it."""
    config = {"fedau-state-dir": str(tmp_path)} if stored else None
    strategy, options, mod_of, _ = METHODS[name]
    first = strategy(N, server_learning_rate=ETA, **options)
    first.checkpointed(0)
    grid, x = play(first, mod_of, path=PATH[:20], node_config=config)
    first.checkpointed(20)
    state, model = json.loads(json.dumps(first.state_dict(), default=as_list)), record(x=x)
    for t in range(20, 25):
        grid.present = set(np.flatnonzero(PATH[t]).tolist())
        model = grid.play(first, t + 1, model)
    if stored:  # every SuperNode restarts as well
        for context in grid.contexts.values():
            context.state.clear()
    second = strategy(N, server_learning_rate=ETA, **options)
    second.load_state_dict(as_arrays(state))
    model = record(x=x)
    for t in range(20, ROUNDS):
        grid.present = set(np.flatnonzero(PATH[t]).tolist())
        model = grid.play(second, t + 1, model)
    np.testing.assert_array_equal(values(model)["x"], straight(name))


def as_list(value):
    return {"__array__": value.tolist()}


def as_arrays(value):
    if isinstance(value, dict):
        if "__array__" in value:
            return np.array(value["__array__"])
        return {key: as_arrays(item) for key, item in value.items()}
    return value


@pytest.mark.parametrize(("name", "formula"), [("fedawe", fedawe), ("mimic", mimic)])
def test_a_delivery_that_is_lost_for_good(name, formula):
    """A client that was not reached starts from the server's model, or sends its bare update."""
    unreached = np.random.default_rng(9).random(PATH.shape) < 0.4
    options = {"held_rounds": 0} if name == "mimic" else {}
    strategy = REMEMBERING[name](N, server_learning_rate=ETA, **options)
    _, x = play(strategy, always(UnitWeighting()), unreached=unreached)
    np.testing.assert_allclose(x, formula(reached=~unreached), rtol=0, atol=1e-12)
    assert not strategy.deliveries.waiting


def test_mimic_repeats_a_lost_step_before_the_next_request():
    """Only the first attempt of every delivery gets lost, so nothing is lost for good."""
    strategy = MimiC(N, server_learning_rate=ETA, held_rounds=ROUNDS)
    grid = Federation(training_app(train, [FedAUMod()]), N)
    model, send = record(x=np.ones(3)), strategy.deliveries.send

    def lossy(*arguments):
        grid.unreached = set(range(N))
        send(*arguments)
        grid.unreached = set()

    strategy.deliveries.send = lossy
    for t, here in enumerate(PATH):
        grid.present = set(np.flatnonzero(here).tolist())
        model = grid.play(strategy, t + 1, model)
    np.testing.assert_allclose(values(model)["x"], mimic(), rtol=0, atol=1e-12)
    assert {*strategy.deliveries.held} == {*strategy.deliveries.waiting.values()}
    assert len(strategy.deliveries.waiting) == N


def test_the_server_holds_no_more_rounds_than_it_was_told():
    strategy = MimiC(N, held_rounds=2)
    everyone = np.ones(PATH.shape, bool)
    path = np.eye(N, dtype=bool)
    play(strategy, always(UnitWeighting()), path=path, unreached=everyone)
    assert {*strategy.deliveries.held} == {N - 1, N}
    assert sorted(strategy.deliveries.waiting.values()) == [N - 1, N]


@pytest.mark.parametrize(("name", "formula"), [("fedawe", fedawe), ("mimic", mimic)])
def test_clients_that_lost_their_memory_go_on(name, formula):
    strategy = REMEMBERING[name](N, server_learning_rate=ETA)
    grid, x = play(strategy, always(UnitWeighting()), path=PATH[:20])
    for context in grid.contexts.values():
        context.state.clear()
    model = record(x=x)
    for t in range(20, ROUNDS):
        grid.present = set(np.flatnonzero(PATH[t]).tolist())
        model = grid.play(strategy, t + 1, model)
    reached = np.ones(PATH.shape, bool)
    for n in range(N):  # the last delivery before they forgot is as good as lost
        reached[np.flatnonzero(PATH[:20, n])[-1], n] = False
    np.testing.assert_allclose(values(model)["x"], formula(reached=reached), rtol=0, atol=1e-12)


def test_fedstale_is_fedau_and_fedvarp_at_its_ends():
    _, fresh = play(FedStale(N, 0.0, server_learning_rate=ETA), always(FedAUWeighting(7)))
    np.testing.assert_allclose(fresh, weighted(algorithm_2(7)), rtol=0, atol=1e-12)
    stale, path = FedStale(N, 1.0, server_learning_rate=ETA), PATH[PATH.any(axis=1)]

    class AsManyAsCame(UnitWeighting):  # which no client can know beforehand
        def advance(self, state, participated):
            return self.skip(state, 1)

        def skip(self, state, rounds):
            there = path[min(state.round + rounds, len(path) - 1)].sum()
            return replace(state, round=state.round + rounds, weight=N / there)

        def initial(self):
            return WeightState(weight=N / path[0].sum())

    _, x = play(stale, always(AsManyAsCame()), path=path)
    _, expected = play(FedVARP(N, server_learning_rate=ETA), always(UnitWeighting()), path=path)
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-12)


def test_fedawe_knows_the_mean_of_all_models():
    """While every delivery arrives, the server's mean is that of what the clients hold."""
    strategy = FedAWE(N, server_learning_rate=ETA, track_mean=True)
    own = {n: np.ones(3) for n in range(N)}
    grid, model = Federation(training_app(train, [FedAUMod()]), N), record(x=np.ones(3))
    for t, here in enumerate(PATH):
        grid.present = set(np.flatnonzero(here).tolist())
        model = grid.play(strategy, t + 1, model)
        own |= dict.fromkeys(grid.present, values(model)["x"])
        expected = np.mean([*own.values()], 0)
        np.testing.assert_allclose(strategy.mean_model["x"], expected, rtol=0, atol=1e-12)


def test_fedawe_clips_the_mean_of_the_amplified_updates():
    strategy = FedAWE(2, clip_norm=0.5)
    grid = Federation(training_app(lambda c, a, r: {"x": a["x"] + 3.0}), 2)
    model = grid.play(strategy, 1, record(x=np.zeros(4)))
    np.testing.assert_allclose(values(model)["x"], np.full(4, 0.25))


def test_amplified_takes_a_strategy_over():
    inner = FedAUAdam(N)
    outer = Amplified(inner, period=3, factor=2.0)
    assert outer.ledger is inner.ledger
    assert outer.num_clients == N
    assert outer.settings()["Factor"] == 2.0
    for strategy in (MIFA(N), FedAWE(N), FedAvg()):
        with pytest.raises(
            ValueError, match="must be one of fedau_flwr whose clients have no memory"
        ):
            Amplified(strategy)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: FedStale(N, 1.5), "beta is 1.5, but must be in [0, 1]."),
        (lambda: FedStale(N, "0.5"), "beta is '0.5', but must be in [0, 1]."),
        (lambda: FedStale(N, np.nan), "beta is nan, but must be in [0, 1]."),
        (lambda: FedAWE(N, clip_norm=0.0), "clip_norm is 0.0, but must be positive and finite."),
        (lambda: FedAWE(N, clip_norm="1"), "clip_norm is '1', but must be positive and finite."),
        (lambda: MimiC(N, held_rounds=-1), "held_rounds is -1, but must be an integer >= 0."),
        (lambda: MimiC(N, held_rounds=True), "held_rounds is True, but must be an integer >= 0."),
        (lambda: Amplified(FedAU(N), period=0), "period is 0, but must be an integer >= 1."),
        (lambda: Amplified(FedAU(N), period=2.5), "period is 2.5, but must be an integer >= 1."),
        (lambda: Amplified(FedAU(N), factor=0.5), "factor is 0.5, but must be a finite number"),
        (lambda: Amplified(FedAU(N), factor="2"), "factor is '2', but must be a finite number"),
        (lambda: Amplified(FedAU(N), factor=np.inf), "factor is inf, but must be a finite number"),
        (lambda: FedAUMod(FrequencyWeighting), "FrequencyWeighting'>, but must be a weighting"),
    ],
)
def test_what_a_method_does_not_take(make, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make()


def test_a_client_without_its_memory_refuses():
    strategy = MIFA(1)
    grid = Federation(training_app(train), 1)
    model = grid.play(strategy, 1, record(x=np.ones(3)))
    (context,) = grid.contexts.values()
    context.state.clear()
    grid.play(strategy, 2, model)
    assert "cannot take part in this training any more" in grid.replies[0].error.reason
    assert strategy.ledger.counted == {context.node_id: 1}


@pytest.mark.parametrize("make", [MIFA, FedVARP, FedStale])
def test_a_checkpoint_does_not_follow_the_steps_after_it(make):
    strategy, model = make(2), {"x": np.zeros(2, np.float32), "y": np.float32(0)[...]}
    sums = {part: {n: v + np.float32(3) for n, v in model.items()} for part in ("update", "change")}
    model = strategy.step(model, sums, 1)
    saved = strategy.state_dict()["mean"]
    strategy.step(model, sums, 1)
    for name in model:
        np.testing.assert_array_equal(saved[name], np.float32(1.5))
        np.testing.assert_array_equal(strategy.mean[name], np.float32(3))


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


COSTS = {
    "FedAU and all that differ in weights": (FedAU, 1, 1, 0, 0),
    "MIFA": (MIFA, 1, 1, 2, 1),
    "FedVARP": (FedVARP, 1, 1, 2, 1),
    "FedStale": (FedStale, 2, 1, 2, 1),
    "FedAWE": (FedAWE, 2, 2, 2, 0),
    "MimiC": (MimiC, 1, 2, 3, 0),
    "Amplified FedAvg": (lambda n: Amplified(FedAU(n)), 1, 1, 0, 1),
}


@pytest.mark.parametrize("name", COSTS)
def test_what_a_method_costs_is_what_the_table_says(name):
    """In models, which is what arrays of its size in messages and states are counted in."""
    make, *expected = COSTS[name]
    strategy, sent = make(2), []

    class Watching(Federation):
        def send_and_receive(self, messages, *, timeout=None):
            replies = super().send_and_receive(messages, timeout=timeout)
            sent.append((sum(map(size, messages)), sum(map(size, replies))))
            return replies

    grid = Watching(training_app(train), 2)
    model = record(x=np.ones(1000))
    for t in range(1, 4):
        sent.clear()
        model = grid.play(strategy, t, model)
    states = [context.state for context in grid.contexts.values()]
    held = sum(len(a.data) for s in states for r in s.array_records.values() for a in r.values())
    own = {k: v for k, v in strategy.state_dict().items() if k not in ("ledger", "groups")}
    down, up = np.sum(sent, axis=0)
    found = [round(n / 16_000) for n in (up, down, held, 2 * arrays_in(own))]
    assert found == expected
    row = f"| {name} | {' | '.join(map(str, expected))} |"
    assert row in (Path(fedau_flwr.__file__).parent / "README.md").read_text(encoding="utf-8")


def size(message):
    records = message.content.array_records.values()
    return sum(len(array.data) for record in records for array in record.values())


def arrays_in(value):
    if isinstance(value, dict):
        return sum(map(arrays_in, value.values()))
    return value.nbytes if isinstance(value, np.ndarray) else 0
