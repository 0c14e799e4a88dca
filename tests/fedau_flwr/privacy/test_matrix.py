"""`MatrixPrivacy` in real strategies: its noise, its releases, its rounds, and what it refuses."""

import copy
import re
from functools import partial
from math import sqrt

import numpy as np
import pytest
from flwr.app import ConfigRecord
from scipy.linalg import toeplitz
from scipy.stats import chi2

from fedau_flwr import (
    MIFA,
    AdaptiveNorm,
    FedAU,
    FedAUMod,
    MatrixPrivacy,
    RoundLoop,
    SecureSum,
    SumStrategy,
    Transform,
    UnitWeighting,
)
from fedau_flwr.client.separation import Separation
from fedau_flwr.privacy import matrix_sum
from fedau_flwr.privacy.gdp import mu_of
from fedau_flwr.privacy.generator import SecureGenerator
from fedau_flwr.privacy.noise_stream import NoiseStream
from fedau_flwr.privacy.plan import NoisePlan, banded, best_plan, buffered
from fedau_flwr.privacy.toeplitz import square_root
from fedau_flwr.server.callbacks import Checkpoints, JsonLines, PrometheusTextfile
from tests.fedau_flwr.federation import Federation, record, towards, training_app, values

SIZE = 40
MODEL = {"x": np.zeros(SIZE, np.float32)}


def settings(**changes):
    usual = {"norm": 1.0, "epsilon": 8.0, "delta": 1e-5, "rounds": 12, "separation": 3}
    return {**usual, **changes}


def make(directory=None, clients=3, mods=None, kind=FedAU, **changes):
    """Return a federation and a strategy whose clients send unit vectors in their own places."""
    targets = 10 * np.eye(clients, SIZE, dtype=np.float32)
    app = training_app(towards(targets, rate=1.0), mods or [FedAUMod(UnitWeighting())])
    privacy = MatrixPrivacy(**settings(releases=directory, **changes))
    return Federation(app, clients), kind(num_clients=clients, privacy=privacy)


class Death(Exception):
    """The server's process ends."""


def loop(grid, strategy, directory, every=4):
    return RoundLoop(strategy, grid, [Checkpoints(directory, every=every)])


# What is refused.


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"norm": 0.0}, "norm is 0.0, but must be positive and finite."),
        ({"epsilon": 0.0}, "epsilon is 0.0, but must be positive and finite."),
        ({"delta": 1.0}, "delta is 1.0, but must be strictly between 0 and 1."),
        ({"rounds": 0}, "rounds is 0, but must be an integer >= 1."),
        ({"separation": 0}, "fedau-separation is 0, but must be an integer >= 1."),
        ({"bands": 13}, "bands is 13, but must be 'auto' or from 1 to 12."),
        ({"bands": "few"}, "bands is 'few', but must be 'auto' or from 1 to 12."),
        ({"memory_limit": 0}, "memory_limit is 0, but must be positive and finite."),
    ],
)
def test_bad_settings_get_one_sentence(changes, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        MatrixPrivacy(**settings(**changes))


def test_adaptive_norms_and_secure_sums_are_refused():
    with pytest.raises(ValueError, match=r"AdaptiveNorm, but must be a number: .* GaussianPrivacy"):
        MatrixPrivacy(**settings(norm=AdaptiveNorm(norm=1.0, bit_noise=1.0)))
    with pytest.raises(ValueError, match=r"GaussianPrivacy with a secure sum: .* PrivacyBudget"):
        FedAU(3, summation=SecureSum(), privacy=MatrixPrivacy(**settings()))


def test_no_round_is_run_beyond_those_planned():
    grid, strategy = make()
    with pytest.raises(ValueError, match=r"rounds is 13, but must be at most 12, for"):
        RoundLoop(strategy, grid).run(record(**MODEL), 13)
    with pytest.raises(ValueError, match=r"rounds is 13, but must be at most 12, for"):
        strategy.start(grid, record(**MODEL), num_rounds=13)
    assert not grid.received
    RoundLoop(strategy, grid).run(record(**MODEL), 12)
    assert strategy.configure_train(13, record(**MODEL), ConfigRecord(), grid) == []


def test_bands_keep_within_the_memory_limit():
    grid, strategy = make(bands=9, memory_limit=4 * SIZE * 8)
    strategy.configure_train(1, record(**MODEL), ConfigRecord(), grid)
    grid, strategy = make(bands=9, memory_limit=4 * SIZE * 8 - 1)
    with pytest.raises(ValueError, match=r"^bands is 9, but must be at most 8 for a model of 40"):
        strategy.configure_train(1, record(**MODEL), ConfigRecord(), grid)
    privacy = MatrixPrivacy(**settings(rounds=200, separation=20, memory_limit=30 * SIZE))
    privacy.fit(SIZE)
    assert privacy.plan.bytes_per_value() <= 30
    tight = MatrixPrivacy(**settings(memory_limit=1))
    tight.fit(SIZE)
    assert str(tight.plan) == "no correlation"


# How much noise there is.


def test_the_best_plan_has_the_least_error():
    apart = Separation(20)
    plan = best_plan(200, apart)
    others = [buffered(200, apart), banded(200, apart), NoisePlan(square_root(1), 200, apart)]
    assert plan.relative_error() <= 1.001 * min(other.relative_error() for other in others)
    assert str(best_plan(200, Separation())) == "no correlation"
    small = best_plan(200, apart, most_bytes=16)
    assert small.bytes_per_value() <= 16


def test_the_guarantee_is_used_up_by_the_last_round_and_not_before():
    privacy = MatrixPrivacy(**settings(rounds=60, separation=7))
    spent = [privacy.spent(rounds)["epsilon"] for rounds in range(61)]
    assert spent[0] == 0.0
    assert spent == sorted(spent)
    assert spent[-1] == pytest.approx(8.0, rel=1e-9)
    assert spent[-1] <= 8.0
    for rounds in (1, 30, 60):
        assert privacy.spent(rounds)["epsilon_renyi"] > spent[rounds]
    alone = MatrixPrivacy(**settings(rounds=2000, separation=50, bands=1))
    assert alone.noise_multiplier == pytest.approx(3.796, abs=5e-4)
    assert alone.noise_multiplier == sqrt(40) / mu_of(8.0, 1e-5)


@pytest.mark.parametrize("bands", ["auto", 4])
def test_released_sums_have_the_claimed_covariance(monkeypatch, bands):
    """A seeded test; with another key it would fail with probability 1e-4.

    Clients that stay where they are send zeros, so that models show the noise alone. C times it is
    white, with the standard deviation of the plan.
    """
    rounds, size = 6, 30_000
    keyed = partial(NoiseStream, generator=SecureGenerator(bytes(range(32))))
    monkeypatch.setattr(matrix_sum, "NoiseStream", keyed)
    app = training_app(lambda client, arrays, server_round: arrays, [FedAUMod()])
    privacy = MatrixPrivacy(**settings(norm=0.5, rounds=rounds, separation=1, bands=bands,
                                       participations=2))  # fmt: skip
    grid, strategy = Federation(app, rounds), FedAU(num_clients=1, privacy=privacy)
    models = [record(x=np.zeros(size))]
    for number in range(1, rounds + 1):
        grid.present = {number - 1}
        models.append(grid.play(strategy, number, models[-1]))
    noise = np.diff([values(model)["x"] for model in models], axis=0)
    column = np.zeros(rounds)
    column[: len(privacy.plan.coefficients)] = privacy.plan.coefficients[:rounds]
    white = toeplitz(column, np.zeros(rounds)) @ noise / (0.5 * privacy.noise_multiplier)
    level = 1e-4 / rounds**2
    assert np.all((white**2).sum(axis=1) > chi2.ppf(level / 2, size))
    assert np.all((white**2).sum(axis=1) < chi2.isf(level / 2, size))
    products = (white @ white.T)[np.triu_indices(rounds, 1)] / np.sqrt(size)
    assert np.abs(products).max() < np.sqrt(chi2.isf(level, 1))


def test_a_second_run_draws_other_noise(tmp_path):
    models = []
    for name in ("one", "two"):
        grid, strategy = make(tmp_path / name)
        models.append(values(grid.play(strategy, 1, record(**MODEL)))["x"])
    assert np.all(models[0] != models[1])


def test_contributions_are_clipped_after_weighting_and_noise_is_planned_for_them():
    grid, strategy = make(epsilon=1e7, separation=1, rounds=4)
    grid.play(strategy, 1, record(**MODEL))
    sent = [reply.content["arrays"]["x"].numpy() for reply in grid.replies]
    assert [float(np.linalg.norm(part)) for part in sent] == pytest.approx([1.0] * 3, rel=1e-6)


class Twice(Transform):
    parts = ("update", "second")
    scalars = ("count",)

    def contribute(self, update, turn):
        return {"update": update, "second": update, "count": {"": np.array(50.0, np.float32)}}


class TwiceSum(SumStrategy):
    transform = Twice()

    def step(self, model, sums, participants):
        self.sums = sums
        return self.moved(model, sums["update"]) if sums else model


def test_all_parts_share_one_norm(tmp_path):
    mods = [FedAUMod(UnitWeighting(), transforms=[Twice])]
    grid, strategy = make(tmp_path, mods=mods, kind=TwiceSum, epsilon=1e9, rounds=2, separation=1)
    grid.play(strategy, 1, record(**MODEL))
    reply = grid.replies[0].content
    parts = [reply["arrays"]["x"], *reply["fedau.parts"].values()]
    assert sqrt(sum(float(np.sum(part.numpy() ** 2)) for part in parts)) == pytest.approx(1.0)
    assert {*strategy.sums} == {"update", "second", "count"}
    assert strategy.sums["count"][""].shape == ()


@pytest.mark.parametrize("huge", [1.001, 1e30])
def test_what_was_not_clipped_is_not_counted(huge):
    def unclipped(message, context, call_next):
        reply = call_next(message, context)
        if context.node_config["partition-id"] == 1:
            reply.content["arrays"] = record(x=np.full(SIZE, huge / sqrt(SIZE), np.float32))
        return reply

    grid, strategy = make(mods=[unclipped, FedAUMod(UnitWeighting())])
    grid.play(strategy, 1, record(**MODEL))
    assert (strategy.last_round.counted, strategy.last_round.rejected) == (2, 1)


# No sum is released twice.


@pytest.mark.parametrize(
    ("number", "dies"),
    [  # round 6 is empty, since all rest in it
        (3, "before the noise"),
        (7, "before the noise"),
        (3, "before the file"),
        (6, "before the file"),
        (6, "after the file"),
        (7, "after the file"),
    ],
)
def test_after_a_crash_no_round_is_released_twice(tmp_path, monkeypatch, number, dies):
    released: dict[int, list[bytes]] = {}
    asked: list[int] = []
    original = matrix_sum.Releases.write

    def write(self, server_round, release):
        if alive and dies == "before the file" and server_round == number:
            raise Death
        original(self, server_round, release)
        if alive and dies == "after the file" and server_round == number:
            raise Death

    draw = NoiseStream.release

    def release(self, sums):
        if alive and dies == "before the noise" and strategy.ledger.round == number:
            raise Death
        return draw(self, sums)

    class Seen(FedAU):
        def configure_train(self, *arguments):
            messages = super().configure_train(*arguments)
            asked.extend([self.ledger.round] if messages else [])
            return messages

        def step(self, model, sums, participants):
            if sums:
                released.setdefault(self.ledger.round, []).append(sums["update"]["x"].tobytes())
            return super().step(model, sums, participants)

    monkeypatch.setattr(matrix_sum.Releases, "write", write)
    monkeypatch.setattr(NoiseStream, "release", release)
    alive = True
    grid, strategy = make(tmp_path / "sums", kind=Seen, separation=2)
    with pytest.raises(Death):
        loop(grid, strategy, tmp_path / "run").run(record(**MODEL), 12)
    alive = False
    before = set(asked)
    again = Seen(num_clients=3, privacy=MatrixPrivacy(**settings(
        releases=tmp_path / "sums", separation=2)))  # fmt: skip
    asked.clear()
    loop(grid, again, tmp_path / "run").run(record(**MODEL), 12)
    assert all(len(set(sums)) == 1 for sums in released.values())
    done = number if dies == "after the file" else number - 1
    assert all(one > done for one in asked)
    assert before <= set(range(1, number + 1))
    # Clients that had answered the round that died are not asked for another answer near it.
    for context in grid.contexts.values():
        assert '"count": ' in next(iter(context.state["fedau.answered"].values()))
    assert again.summation.round == 12
    assert again.ledger.attempts[-1][1] == done + 1


@pytest.mark.parametrize("kind", [FedAU, MIFA])
def test_a_resumed_training_ends_as_if_it_had_not_stopped(tmp_path, monkeypatch, kind):
    """With the same noise, that is: the key of each round's generator follows from its number."""

    def seeded(self, sums):
        self._generator = SecureGenerator(bytes([strategies[-1].ledger.round] * 32))
        return draw(self, sums)

    draw = NoiseStream.release
    monkeypatch.setattr(NoiseStream, "release", seeded)
    strategies, models = [], []
    for name, stops in (("whole", [12]), ("halves", [6, 9, 12])):
        grid = None
        for stop in stops:
            new, strategy = make(tmp_path / name / "sums", kind=kind, separation=1, bands=5)
            grid = grid or new
            strategies.append(strategy)
            run = loop(grid, strategy, tmp_path / name, every=100)
            # Without the checkpoint at the end, as after a crash.
            monkeypatch.setattr(Checkpoints, "on_end", lambda self, loop: None)
            run.run(record(**MODEL), stop)
        models.append(values(run.arrays)["x"])
        assert strategies[-1].ledger.counted.keys() == strategies[0].ledger.counted.keys()
    np.testing.assert_array_equal(models[0], models[1])
    assert not [1 for message in grid.received if message.content["config"]["server-round"] > 12]


def test_lost_replies_of_replayed_rounds_stay_lost(tmp_path):
    grid, strategy = make(tmp_path / "sums", separation=2)
    run = loop(grid, strategy, tmp_path / "run", every=100)
    grid.lost = {1}
    strategy.checkpointed(0)
    saved = copy.deepcopy(strategy.state_dict())
    model = grid.play(strategy, 1, record(**MODEL))
    _, again = make(tmp_path / "sums", separation=2)
    again.load_state_dict(saved)
    replayed = grid.play(again, 1, record(**MODEL))
    np.testing.assert_array_equal(values(replayed)["x"], values(model)["x"])
    assert again.last_round.counted == 2
    grid.lost = set()
    for server_round in (2, 3):
        model = grid.play(again, server_round, model)
    node = next(node for node in grid.contexts if grid.number(node) == 1)
    message = [one for one in grid.received if one.metadata.dst_node_id == node][-1]
    assert message.content["config"]["fedau-counted"] == 0
    assert run.status == "running"


def test_what_does_not_fit_a_checkpoint_is_refused(tmp_path):
    grid, strategy = make(tmp_path / "sums")
    strategy.checkpointed(0)
    model = record(**MODEL)
    checkpoints = [copy.deepcopy(strategy.state_dict())]
    for server_round in (1, 2, 3):
        model = grid.play(strategy, server_round, model)
        checkpoints.append(copy.deepcopy(strategy.state_dict()))
    strategy.checkpointed(2)
    assert sorted(path.name for path in (tmp_path / "sums").iterdir()) == ["round-000003.npz"]

    def load(checkpoint, directory="sums", **changes):
        _, other = make(directory and tmp_path / directory, **changes)
        other.load_state_dict(checkpoint)

    load(checkpoints[2])
    with pytest.raises(ValueError, match=r"must hold round 2, which was released after .* round 1"):
        load(checkpoints[1])
    with pytest.raises(ValueError, match=r"must hold what was released up to round 2"):
        load(checkpoints[2], "elsewhere")
    with pytest.raises(ValueError, match=r"^releases is None, but must be the directory"):
        load(checkpoints[2], None)
    with pytest.raises(ValueError, match=r"^rounds is 24, but must be 12 as in the training"):
        load(checkpoints[2], rounds=24)
    with pytest.raises(ValueError, match=r"^privacy is a MatrixPrivacy, but must be what"):
        make()[1].load_state_dict(FedAU(3).state_dict())
    _, fresh = make(tmp_path / "sums")
    with pytest.raises(ValueError, match=r"must be empty, or that of the training"):
        fresh.configure_train(1, model, ConfigRecord(), grid)
    _, other = make(tmp_path / "sums")
    state = copy.deepcopy(checkpoints[3])
    state["summation"]["privacy"]["training"] = "another"
    with pytest.raises(ValueError, match=r"must be that of the training that is resumed"):
        other.load_state_dict(state)
    (tmp_path / "sums" / "round-000003.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"The release .*round-000003.npz cannot be read"):
        load(checkpoints[2])


def test_empty_rounds_have_no_noise_and_let_time_go_by(tmp_path):
    grid, strategy = make(tmp_path / "sums", separation=2)
    model = record(**MODEL)
    grid.present = set()
    moved = grid.play(strategy, 1, model)
    np.testing.assert_array_equal(values(moved)["x"], MODEL["x"])
    assert strategy.summation.round == 1
    assert (tmp_path / "sums" / "round-000001.npz").exists()
    grid.present = {0, 1, 2}
    assert np.all(values(grid.play(strategy, 2, moved))["x"] != 0)


def test_logs_files_and_metrics_say_what_is_spent(tmp_path, caplog):
    grid, strategy = make(tmp_path / "sums", rounds=4)
    writers = [JsonLines(tmp_path / "lines"), PrometheusTextfile(tmp_path / "prom")]
    with caplog.at_level("INFO", logger="flwr.fedau"):
        result = RoundLoop(strategy, grid, writers).run(record(**MODEL), 4)
    spent = [result.train_metrics_clientapp[number]["epsilon"] for number in range(1, 5)]
    assert spent == sorted(spent)
    assert spent[-1] == pytest.approx(8.0)
    assert f'"epsilon": {spent[1]}' in (tmp_path / "lines").read_text()
    assert re.search(r"^fedau_epsilon\{run=.*\} 8$", (tmp_path / "prom").read_text(), re.M)
    assert "Privacy: ε = 8 of 8 spent, δ = 1e-05 (at most 8." in caplog.text
    assert "Noise is correlated by" in caplog.text


def test_checkpoints_without_releases_are_warned_of(tmp_path, caplog):
    grid, strategy = make()
    loop(grid, strategy, tmp_path).run(record(**MODEL), 1)
    assert caplog.text.count("cannot be resumed from them") == 1
