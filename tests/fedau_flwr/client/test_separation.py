"""A client that keeps its rounds apart, whatever it is asked and whatever goes wrong."""

import copy
import logging
import shutil
import tempfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ConfigRecord
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from fedau_flwr import FedAU, FedAUMod, FedAUWeighting, GaussianPrivacy, PrivacyBudget
from fedau_flwr.client.answered import Answers
from fedau_flwr.client.participant import Participant
from fedau_flwr.client.separation import RESTING, Resting, Separation
from fedau_flwr.client.state_directory import StateDirectory
from fedau_flwr.server.ledger import Ledger
from fedau_flwr.wire.requests import Refusal, Request
from tests.fedau_flwr.federation import Federation, record, towards, training_app, values
from tests.fuzzing import examples

CLIENTS = 2
MODEL = {"x": np.zeros(1)}


class Crash(Exception):
    """The client's process dies."""


class DyingDirectory(StateDirectory):
    """Dies after one of the two files of an answer is written."""

    dies_after = None

    def record(self, training, answers):
        super().record(training, answers)
        self._die("record")

    def save(self, training, versions):
        super().save(training, versions)
        self._die("save")

    def _die(self, what):
        if self.dies_after == what:
            raise Crash


class KeptApart(RuleBasedStateMachine):
    """A server that loses replies, dies, resumes and asks whom it likes; clients that restart."""

    @initialize(rounds=st.integers(1, 6), limit=st.none() | st.integers(1, 4),
                cutoff=st.sampled_from([None, 7, 24]))  # fmt: skip
    def begin(self, rounds, limit, cutoff):
        self.scratch = Path(tempfile.mkdtemp())
        self.rule = Separation(rounds, limit)
        self.weighting = FedAUWeighting(cutoff)
        self.ledger = Ledger(safe=0)
        self.history = [set() for _ in range(CLIENTS)]
        self.answered = [[] for _ in range(CLIENTS)]
        self.saved = self.snapshot()

    def teardown(self):
        shutil.rmtree(self.scratch)

    def snapshot(self):
        return copy.deepcopy((self.ledger.state_dict(), self.history))

    def ask(self, client, dies_after):
        """Ask a client, whose process has just started; return whether it answered in time."""
        request = self.ledger.request(client)
        store = DyingDirectory(self.scratch, f"client-{client}")
        store.dies_after = dies_after
        participant = Participant(store, self.weighting)
        near = any(abs(request.round - one) < self.rule.rounds for one in self.answered[client])
        full = self.rule.limit is not None and len(self.answered[client]) >= self.rule.limit
        try:
            participant.contribute(request, MODEL, lambda x: x, separation=self.rule)
        except Resting:
            assert near or full
            return False
        except Refusal as refusal:
            # A client that rests from nothing tells a round that it has answered by its attempt.
            if self.rule or "Stale" not in str(refusal):
                raise
            return False
        except Crash:
            self.answered[client].append(request.round)
            return False
        assert not self.rule or not (near or full)
        self.answered[client].append(request.round)
        state = self.weighting.initial()
        for one in range(1, request.round):
            state = self.weighting.advance(state, one in self.history[client])
        assert store.load(request.training)[-1].state == state
        return True

    @rule(gap=st.integers(1, 4), asked=st.sets(st.integers(0, CLIENTS - 1)),
          lost=st.sets(st.integers(0, CLIENTS - 1)),
          dies_after=st.sampled_from([None, None, None, "record", "save"]))  # fmt: skip
    def play(self, gap, asked, lost, dies_after):
        self.ledger.open(self.ledger.round + gap)
        counted = [one for one in sorted(asked) if self.ask(one, dies_after) and one not in lost]
        for client in counted:
            self.history[client].add(self.ledger.round)
        self.ledger.count(counted)

    @rule()
    def checkpoint(self):
        self.saved = self.snapshot()
        self.ledger.safe = self.ledger.round

    @rule()
    def resume(self):
        state, self.history = copy.deepcopy(self.saved)
        before = self.ledger.attempts[-1][0]
        self.ledger = Ledger()
        self.ledger.load_state_dict(state)
        number, start = self.ledger.attempts[-1]
        self.ledger.attempts[-1] = (max(number, before + 1), start)  # time passes
        for client in range(CLIENTS):
            # A server that has never asked trusts the client's own record of its last round.
            if client not in self.ledger.counted:
                self.ledger.counted[client] = 0

    @rule()
    def rounds_are_apart(self):
        for rounds in self.answered if self.rule else ():
            assert all(b - a >= self.rule.rounds for a, b in pairwise(sorted(rounds)))
            assert self.rule.limit is None or len(rounds) <= self.rule.limit


KeptApart.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=20, deadline=None
)
TestKeptApart = KeptApart.TestCase


def test_the_stricter_rule_holds():
    assert Separation(3, 9).with_own(Separation(5)) == Separation(5, 9)
    assert Separation(3, 9).with_own(Separation(1, 4)) == Separation(3, 4)
    assert not Separation()
    for given in (Separation(), Separation(4), Separation(1, 2), Separation(7, 3)):
        assert Separation.from_config(given.to_config()) == given


@pytest.mark.parametrize("bad", [0, -1, 1.5, "3", True])
def test_bad_rules_get_one_sentence(bad):
    with pytest.raises(
        ValueError, match=r"^fedau-separation is .*, but must be an integer >= 1\.$"
    ):
        FedAUMod(separation=bad)
    with pytest.raises(Refusal, match=r"^fedau-participations is .*, but must be an integer"):
        Separation.from_config({"fedau-participations": bad})


def test_the_servers_word_replaces_a_lost_record():
    rule = Separation(5)
    rule.check(Answers(), Request(9, "t1", counted=4))
    with pytest.raises(Resting, match="rests"):
        rule.check(Answers(), Request(8, "t1", counted=4))


def test_cutoffs_are_far_above_the_separation(caplog):
    assert FedAUMod(separation=50)
    with pytest.raises(ValueError, match=r"^cutoff is 50, but must be above 50, .* better 200: "):
        FedAUMod(FedAUWeighting(50), separation=50)
    with caplog.at_level(logging.WARNING, logger="flwr.fedau"):
        Separation(20).check_cutoff(FedAUWeighting(79), warn=True)
    assert "cutoff is 79, but should be at least 80" in caplog.text
    caplog.clear()
    for weighting in (FedAUWeighting(80), FedAUWeighting(None)):
        Separation(20).check_cutoff(weighting, warn=True)
    assert not caplog.text


def federation(mod, clients=2, separation=1, **budget):
    app = training_app(towards([1.0, 3.0]), mods=[mod])
    grid = Federation(app, clients)
    budget = PrivacyBudget(1e6, 1e-5, separation=separation, **budget)
    strategy = FedAU(num_clients=clients, privacy=GaussianPrivacy(10.0, 1.0, budget=budget))
    return grid, strategy


def play(grid, strategy, rounds):
    counted, model = [], record(x=np.zeros(1, np.float32))
    for server_round in range(1, rounds + 1):
        model = grid.play(strategy, server_round, model)
        counted.append(strategy.last_round.counted)
    return counted, model


def test_the_server_tells_clients_and_does_not_ask_who_rests():
    grid, strategy = federation(FedAUMod(), separation=3)
    counted, _ = play(grid, strategy, 7)
    assert counted == [2, 0, 0, 2, 0, 0, 2]
    assert len(grid.received) == 6
    assert grid.received[0].content["config"]["fedau-separation"] == 3


def test_a_client_keeps_its_own_larger_separation_as_an_absence(caplog):
    grid, strategy = federation(FedAUMod(), separation=2)
    first, second = grid.contexts
    grid.contexts[first].node_config["fedau-separation"] = 5
    grid.contexts[second].node_config["fedau-participations"] = 2
    with caplog.at_level(logging.INFO, logger="flwr.fedau"):
        counted, model = play(grid, strategy, 7)
    assert counted == [2, 0, 1, 0, 0, 1, 0]
    assert strategy.last_round.rejected == 0
    assert strategy.last_round.absent == 1
    assert RESTING not in caplog.text
    assert np.isfinite(values(model)["x"]).all()


def test_lost_replies_count_as_answered():
    grid, strategy = federation(FedAUMod(), separation=3)
    grid.lost = {0, 1}
    play(grid, strategy, 1)
    grid.lost = set()
    model = record(x=np.zeros(1, np.float32))
    for server_round, counted in ((2, 0), (3, 0), (4, 2)):
        messages = strategy.configure_train(server_round, model, ConfigRecord(), grid)
        assert len(messages) == 2
        strategy.aggregate_train(server_round, grid.send_and_receive(messages))
        assert strategy.last_round.counted == counted


def test_default_weights_follow_the_separation():
    grid, strategy = federation(FedAUMod(), separation=30)
    play(grid, strategy, 31)
    # Asked for round 31, a client closes the interval of round 1 and 29 rounds run on: with K = 50
    # nothing would be cut off yet, with K = 120 nothing until round 122.
    context = next(iter(grid.contexts.values()))
    assert '"elapsed": 29' in context.state["fedau"]["versions"]
    play_on = strategy.ledger
    play_on.round = 160
    model = record(x=np.zeros(1, np.float32))
    grid.play(strategy, 161, model)
    assert (
        '"elapsed": 9' in context.state["fedau"]["versions"]
    )  # 31 and 129 rounds, 120 of them cut


def test_a_cutoff_below_the_servers_separation_is_refused():
    grid, strategy = federation(FedAUMod(FedAUWeighting(10)), separation=10)
    counted, _ = play(grid, strategy, 1)
    assert counted == [0]
    assert "cutoff is 10, but must be above 10" in grid.replies[0].error.reason
