"""One server and several clients under everything that can go wrong between them.

The model of the test knows which rounds the server counted for whom; after every answer the
client's weight must be Algorithm 2 over exactly these, and the clients' memories must add up
to the server's.
"""

import copy

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fedau_flwr import FedAUWeighting
from fedau_flwr.client.participant import Participant, settle
from fedau_flwr.client.store import Store
from fedau_flwr.methods.mifa import UpdateChange
from fedau_flwr.server.ledger import Ledger
from fedau_flwr.wire.requests import Refusal
from tests.fuzzing import examples

CLIENTS = 3
MODEL = {"x": np.zeros(1)}


class CrashingStore(Store):
    """Keeps versions as a disk would; can die before or after it has written."""

    def __init__(self):
        self.versions = []
        self.crash = None

    def load(self, training):
        return list(self.versions)

    def save(self, training, versions):
        if self.crash == "before":
            raise ConnectionError
        self.versions = list(versions)
        if self.crash == "after":
            raise ConnectionError


class Protocol(RuleBasedStateMachine):
    @initialize(cutoff=st.sampled_from([None, 1, 3, 7]))
    def begin(self, cutoff):
        self.weighting = FedAUWeighting(cutoff)
        self.clients = [Participant(CrashingStore(), self.weighting) for _ in range(CLIENTS)]
        self.names = list(range(CLIENTS))
        self.ledger = Ledger()
        self.ledger.safe = 0
        self.history = [set() for _ in range(CLIENTS)]
        self.total = 0.0
        self.values = iter(range(1, 10**6))
        self.old_requests = []
        self.checkpoints = [self.snapshot()]
        self.memory_holds = True

    def snapshot(self):
        return copy.deepcopy((self.ledger.state_dict(), self.history, self.total))

    def expected(self, client, until):
        state = self.weighting.initial()
        for r in range(1, until):
            state = self.weighting.advance(state, r in self.history[client])
        return state

    def ask(self, client):
        request = self.ledger.request(self.names[client], transform=UpdateChange().to_text())
        self.old_requests.append((client, request))
        participant = self.clients[client]
        target = {"x": np.array([float(next(self.values))])}
        parts = participant.contribute(request, {"x": np.zeros(1)}, lambda start: target)
        pending = participant.store.load(request.training)[-1]
        assert pending.state == self.expected(client, request.round)
        return parts["update"]["x"][0]

    @rule(
        outcomes=st.lists(
            st.sampled_from(["absent", "counted", "lost", "crash before", "crash after"]),
            min_size=CLIENTS,
            max_size=CLIENTS,
        )
    )
    def play_round(self, outcomes):
        self.ledger.open(self.ledger.round + 1)
        counted = []
        for client, outcome in enumerate(outcomes):
            if outcome == "absent":
                continue
            store = self.clients[client].store
            store.crash = outcome.removeprefix("crash ") if "crash" in outcome else None
            try:
                sent = self.ask(client)
            except ConnectionError:
                continue
            finally:
                store.crash = None
            if outcome == "counted":
                counted.append(client)
                self.total += sent
        for client in counted:
            self.history[client].add(self.ledger.round)
        self.ledger.count(self.names[client] for client in counted)

    @precondition(lambda self: self.old_requests)
    @rule(data=st.data())
    def stale_delivery(self, data):
        client, request = data.draw(st.sampled_from(self.old_requests))
        participant = self.clients[client]
        before = list(participant.store.versions)
        newest = before[-1] if before else None
        if newest is None or (newest.attempt, newest.round) < (request.attempt, request.round):
            return  # it never answered this one, so it is not stale to it
        with pytest.raises(Refusal, match="Stale delivery"):
            participant.contribute(request, MODEL, lambda: MODEL)
        assert participant.store.versions == before

    @rule()
    def write_checkpoint(self):
        self.checkpoints = [*self.checkpoints[-2:], self.snapshot()]
        self.ledger.safe = self.oldest()

    def oldest(self):
        return self.checkpoints[0][0]["round"]

    @rule(data=st.data())
    def resume_from_checkpoint(self, data):
        chosen = data.draw(st.integers(0, len(self.checkpoints) - 1))
        del self.checkpoints[chosen + 1 :]
        state, self.history, self.total = copy.deepcopy(self.checkpoints[chosen])
        previous = self.ledger.attempts[-1][0]
        self.ledger = Ledger()
        self.ledger.load_state_dict(state)
        self.ledger.safe = self.oldest()
        number, start = self.ledger.attempts[-1]
        self.ledger.attempts[-1] = (max(number, previous + 1), start)  # time passes
        for client, name in enumerate(self.names):
            if not self.ledger.counted.get(name):
                self.own_record_decides(client)

    @rule(client=st.integers(0, CLIENTS - 1))
    def node_id_changes(self, client):
        self.names[client] = max(self.names) + 1
        self.own_record_decides(client)

    def own_record_decides(self, client):
        """The server has no record of this node id: the client takes its last reply as counted."""
        attempts = dict(self.ledger.attempts)
        held = [
            version
            for version in self.clients[client].store.versions
            if version.attempt in attempts
            and all(version.round < s for a, s in attempts.items() if a > version.attempt)
        ]
        if not held or held[-1].client == self.names[client] in self.ledger.counted:
            return
        if held[-1].round not in self.history[client]:
            self.history[client].add(held[-1].round)
            self.memory_holds = False

    @invariant()
    def memories_add_up(self):
        if not hasattr(self, "clients") or not self.memory_holds:
            return
        held = 0.0
        for client, participant in enumerate(self.clients):
            probe = copy.deepcopy(self.ledger)
            probe.open(probe.round + 1)
            request = probe.request(self.names[client])
            versions = participant.store.load(request.training)
            settled = settle(versions, request, self.weighting, UpdateChange())
            held += settled.memory["last"]["x"][0] if settled.memory else 0.0
            assert settled.state == self.expected(client, request.round)
        assert held == self.total


Protocol.TestCase.settings = settings(
    max_examples=examples(100), stateful_step_count=25, deadline=None
)
TestProtocol = Protocol.TestCase
