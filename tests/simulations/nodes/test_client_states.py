"""The store of all clients against a store that simply keeps every version."""

import os
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from fedau_flwr import FedAUWeighting, Transform
from fedau_flwr.client.delivery import receive
from fedau_flwr.client.participant import Participant
from fedau_flwr.client.store import Store, Version, recall
from fedau_flwr.methods.fedau import WeightedUpdate
from fedau_flwr.methods.fedawe import OwnModelUpdate
from fedau_flwr.methods.fedstale import StaleUpdate
from fedau_flwr.methods.mifa import UpdateChange
from fedau_flwr.methods.mimic import CorrectedUpdate
from fedau_flwr.server.ledger import Ledger
from fedau_flwr.weight_state import WeightState
from fedau_flwr.wire.requests import DELIVERY
from simulations.nodes.client_states import ClientStates, flush, make_states
from simulations.runs.shared_arrays import DIRECTORY
from tests.fuzzing import examples

CLIENTS = 3
SOME = st.sets(st.integers(0, CLIENTS - 1))


class Delivered(Transform):
    """A user's own: sends what it remembers as it is, and remembers what is delivered."""

    remembers = True
    parts = ("update", "stale")

    def contribute(self, update, turn):
        return {"update": update, "stale": turn.memory.get("last", update)}

    def remember(self, memory, sent):
        return {**memory, "last": sent["update"]}

    def receive(self, memory, delivered):
        return {**memory, "step": delivered}


TRANSFORMS = (
    Delivered(),
    UpdateChange(),
    WeightedUpdate(),
    OwnModelUpdate(),
    CorrectedUpdate(),
    StaleUpdate(beta=0.5),
)
SHAPES = {"a": (2, 2), "b": (3,)}


class Everything(Store):
    """Keeps what it is given."""

    def __init__(self):
        self.versions = []

    def load(self, training):
        return list(self.versions)

    def save(self, training, versions):
        self.versions = list(versions)


def arrays(value):
    return {name: np.full(shape, value, np.float32) for name, shape in SHAPES.items()}


class SameContributions(RuleBasedStateMachine):
    """A server that checkpoints, loses replies, dies and resumes; clients of both stores follow."""

    @initialize(transform=st.sampled_from([*TRANSFORMS]))
    def start(self, transform):
        self.transform = transform.to_text()
        self.scratch = tempfile.TemporaryDirectory()
        self.directory = Path(self.scratch.name) / "states"
        self.reference = [Everything() for _ in range(CLIENTS)]
        self.ledger = Ledger(safe=0)
        self.saved = self.ledger.state_dict()
        self.states = self.open()

    def open(self):
        return ClientStates(self.directory)

    def store(self, client):
        return self.states.client(client, self.ledger.safe or 0)

    @contextmanager
    def stores(self, clients, together):
        """Provide the stores of clients, on a host or each on its own."""
        if together:
            with self.states.together(clients, self.ledger.safe or 0) as stores:
                yield stores
        else:
            yield {client: self.store(client) for client in clients}

    @rule(
        asked=SOME,
        lost=SOME,
        unreached=SOME,
        value=st.integers(-5, 5),
        looks_ahead=st.booleans(),
        together=st.booleans(),
    )
    def round(self, *, asked, lost, unreached, value, looks_ahead, together):
        """Run a round; without looking ahead states are kept as in a run that began before."""
        self.ledger.open(self.ledger.round + 1)
        with self.stores(sorted(asked), together) as stores:
            for client, store in stores.items():
                request = self.ledger.request(client, transform=self.transform)
                trained = arrays(value + client)
                store.looks_ahead = looks_ahead
                left, right = (
                    Participant(store, FedAUWeighting(cutoff=4), (Delivered,)).contribute(
                        request, arrays(0.0), lambda start, trained=trained: trained
                    )
                    for store in (self.reference[client], store)
                )
                assert left.keys() == right.keys()
                for part in left:
                    for name in SHAPES:
                        np.testing.assert_array_equal(left[part][name], right[part][name])
        self.ledger.count(sorted(asked - lost))
        for client in sorted(asked - lost - unreached):
            request = replace(self.ledger.request(client), counted=None)
            for store in (self.reference[client], self.store(client)):
                receive(store, request, {DELIVERY: self.ledger.round}, arrays(value / 2))

    @rule()
    def checkpoint(self):
        flush(self.directory)
        self.saved = self.ledger.state_dict()
        self.ledger.safe = self.ledger.round

    @rule()
    def resume(self):
        previous = self.ledger.attempts
        self.ledger = Ledger()
        self.ledger.load_state_dict(self.saved)
        # The clock may not have moved since the last resume of a test this fast.
        number = max(previous[-1][0] + 1, self.ledger.attempts[-1][0])
        self.ledger.attempts[-1] = (number, self.ledger.attempts[-1][1])

    @rule()
    def another_worker(self):
        self.states = self.open()

    def teardown(self):
        if hasattr(self, "scratch"):
            self.scratch.cleanup()


class SameContributionsInMemory(SameContributions):
    """All of it with arrays in shared memory, which is gone when the server dies."""

    def open(self):
        os.environ[DIRECTORY] = f"{self.scratch.name}/shared"
        return ClientStates(self.directory, CLIENTS)

    @rule()
    def resume(self):
        super().resume()
        make_states(self.directory)
        self.states = self.open()

    def teardown(self):
        if hasattr(self, "scratch"):
            make_states(self.directory)
        os.environ.pop(DIRECTORY, None)
        super().teardown()


MANY = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)
TestSameContributions = SameContributions.TestCase
TestSameContributions.settings = MANY
TestSameContributionsInMemory = SameContributionsInMemory.TestCase
TestSameContributionsInMemory.settings = MANY


def test_files_take_up_space_only_where_something_is_written(tmp_path):
    states = ClientStates(tmp_path)
    assert states.client(99_999).load("t") == []
    sent = {"update": {"x": np.arange(1000, dtype=np.float32)}}
    version = Version(3, 1, 99_999, WeightState(2, 0, 2), {}, sent)
    states.client(99_999).save("t", [version])
    (loaded,) = states.client(99_999).load("t")
    np.testing.assert_array_equal(loaded.sent["update"]["x"], sent["update"]["x"])
    assert (loaded.round, loaded.state) == (3, WeightState(2, 0, 2))
    assert states.client(99_998).load("t") == []
    assert (tmp_path / "arrays-sent%2Fupdate.bin").stat().st_size > 99_999 * 2 * 4000
    assert sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir()) < 100_000


@pytest.mark.parametrize(("safe", "slots"), [(0, 1), (1, 2)])
def test_a_second_slot_is_taken_once_the_first_holds_a_checkpointed_version(tmp_path, safe, slots):
    store = ClientStates(tmp_path).client(0, safe)
    versions = [
        Version(number, 1, 0, WeightState(number - 1, 0, number - 1), {}, {"update": {"x": x}})
        for number, x in enumerate(np.arange(3000, dtype=np.float32).reshape(3, 1000), 1)
    ]
    for count in (1, 2, 3):
        store.save("t", versions[:count])
    kept = store.load("t")
    assert [version.round for version in kept] == ([1, 3] if slots == 2 else [3])
    np.testing.assert_array_equal(kept[-1].sent["update"]["x"], versions[-1].sent["update"]["x"])
    size = (tmp_path / "arrays-sent%2Fupdate.bin").stat().st_size
    assert slots * 4000 < size < slots * 4020


def test_clients_of_a_host_are_written_at_its_end_and_not_if_it_fails(tmp_path):
    states, one = ClientStates(tmp_path), Version(1, 1, 0, WeightState(0, 0, 0))
    with states.together([0, 1]) as stores:
        stores[0].save("t", [one])
        assert not (tmp_path / "states.bin").exists()
    (found,) = states.client(0).load("t")
    assert (found.round, found.state) == (1, one.state)

    def fail():
        with states.together([0, 1]) as stores:
            assert [version.round for version in stores[0].load("t")] == [1]
            stores[0].save("t", [Version(2, 1, 0, WeightState(1, 0, 1))])
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        fail()
    assert [version.round for version in states.client(0).load("t")] == [1]
    assert states.client(1).load("t") == []


def contribute(states, ledger, *, lost=False):
    """Let client 0 take part in the next round under MIFA."""
    ledger.open(ledger.round + 1)
    request = ledger.request(0, transform=UpdateChange().to_text())
    participant = Participant(states.client(0, ledger.safe), FedAUWeighting())
    trained = {"x": np.full(1000, ledger.round, np.float32)}
    participant.contribute(request, {"x": np.zeros(1000, np.float32)}, lambda start: trained)
    ledger.count([] if lost else [0])


def rounds_at_places(directory):
    """Return the round of the memory at each place that a single client has used."""
    block = [("round", np.int64), ("attempt", np.int64), ("x", np.float32, 1000)]
    return np.fromfile(directory / "memory-last.bin", block)["round"].tolist()


def test_a_version_writes_one_memory_and_refers_to_the_other(tmp_path):
    states, ledger, found = ClientStates(tmp_path), Ledger(safe=0), []
    for number in range(1, 9):
        contribute(states, ledger, lost=number == 4)
        found.append(rounds_at_places(tmp_path))
        if number == 5:
            ledger.safe = number
    in_turns = [[0, 1], [2, 1], [2, 3], [4, 3]]
    # Round 4 was not counted, so that of round 3 stays until the checkpoint, which needs it too.
    assert found == [*in_turns, [5, 3], [5, 3, 6], [5, 3, 6, 7], [5, 3, 8, 7]]
    assert not [*tmp_path.glob("arrays-*")]


def test_a_memory_is_read_when_it_is_asked_for_and_not_to_be_changed(tmp_path):
    states, ledger = ClientStates(tmp_path), Ledger(safe=0)
    contribute(states, ledger)
    contribute(states, ledger)
    (version,) = states.client(0).load("t")
    assert recall(version.memory)["last"]["x"][0] == 1
    assert recall(version.next_memory)["last"]["x"][0] == 2
    with pytest.raises(ValueError, match="read-only"):
        recall(version.memory)["last"]["x"] += 1
    (tmp_path / "memory-last.bin").unlink()
    (version,) = states.client(0).load("t")
    with pytest.raises(OSError, match="has lost 1 of a client's arrays"):
        recall(version.next_memory)


def test_arrays_of_any_names_types_and_shapes_are_kept(tmp_path):
    first, other = ClientStates(tmp_path), ClientStates(tmp_path)
    sent = {
        "update": {"a/b.weight": np.arange(6.0).reshape(2, 3), "n": np.array(1, np.int32)},
        "bit": {"": np.array(0.5, np.float32)},
    }
    memory = {"a/y": {"x": np.ones((0, 4), np.float32)}}
    first.client(2).save("t", [Version(1, 1, 2, WeightState(0, 0, 0), memory, sent)])
    (found,) = other.client(2).load("t")
    for kept, given in ((found.sent, sent), (found.memory, memory)):
        assert kept.keys() == given.keys()
        for group, arrays in given.items():
            assert kept[group].keys() == arrays.keys()
            for name, value in arrays.items():
                found = kept[group][name]
                assert isinstance(found, np.ndarray)
                assert (found.dtype, found.shape) == (value.dtype, value.shape)
                np.testing.assert_array_equal(found, value)


def test_arrays_that_were_lost_are_an_error(tmp_path):
    sent = {"update": {"x": np.zeros(3, np.float32)}}
    version = Version(1, 1, 0, WeightState(0, 0, 0), {}, sent)
    ClientStates(tmp_path).client(0).save("t", [version])
    (tmp_path / "arrays-sent%2Fupdate.bin").unlink()
    with pytest.raises(OSError, match="has lost 1 of a client's arrays"):
        ClientStates(tmp_path).client(0).load("t")
