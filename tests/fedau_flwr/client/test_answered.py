"""The record of answered rounds, in all places where clients keep state."""

import numpy as np
import pytest
from flwr.app import Context, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from fedau_flwr.client.answered import RECENT, Answers, model_digest
from fedau_flwr.client.state_directory import StateDirectory
from fedau_flwr.client.store import ContextStore, Store
from fedau_flwr.weight_state import StateError
from fedau_flwr.wire.requests import Refusal
from simulations.nodes.client_states import ClientStates, flush

ENTRIES = st.lists(st.tuples(st.integers(1, 500), st.integers(0, 2**64 - 1)), max_size=3 * RECENT)


def answers_of(entries):
    answers = Answers()
    for server_round, digest in entries:
        answers = answers.added(server_round, digest)
    return answers


@given(ENTRIES, st.integers(1, 600), st.integers(1, 60))
def test_an_answered_round_is_never_forgotten(entries, asked, separation):
    answers = answers_of(entries)
    for server_round, digest in entries:
        assert answers.has(server_round, digest)
    if any(abs(asked - server_round) < separation for server_round, _ in entries):
        assert answers.near(asked, separation)
    assert answers.last == max([0, *(server_round for server_round, _ in entries)])


@given(ENTRIES.filter(lambda entries: len(set(entries)) <= RECENT), st.integers(1, 600),
       st.integers(1, 60))  # fmt: skip
def test_recent_answers_are_told_apart_exactly(entries, asked, separation):
    answers = answers_of(entries)
    rounds = [server_round for server_round, _ in entries]
    assert answers.near(asked, separation) == any(abs(asked - r) < separation for r in rounds)
    assert answers.count == len(set(entries))
    assert not answers.has(asked, 2**64 - 1) or (asked, 2**64 - 1) in entries


def test_older_answers_count_as_given_for_everything():
    answers = answers_of((server_round, 7) for server_round in range(1, RECENT + 4))
    assert (answers.count, answers.floor, len(answers.recent)) == (RECENT + 3, 3, RECENT)
    assert answers.has(2, 8)
    assert not answers.has(4, 8)
    assert answers.near(1, 1)


@given(ENTRIES)
def test_texts_are_read_back(entries):
    answers = answers_of(entries)
    assert Answers.from_json(answers.to_json("t1"), "t1") == answers


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        Answers().to_json("t2"),
        Answers().to_json("t1").replace(" 1", " 9"),
        answers_of([(4, 1)]).to_json("t1").replace('"count": 1', '"count": 0'),
        answers_of([(4, 1)]).to_json("t1").replace("[4,", '["4",'),
        answers_of([(4, 1)]).to_json("t1").replace("[4,", "[0,"),
    ],
)
def test_other_texts_are_refused(text):
    with pytest.raises(StateError):
        Answers.from_json(text, "t1")


@pytest.fixture(params=["directory", "context", "simulation"])
def open_store(request, tmp_path):
    context = Context(1, 2, {}, RecordDict(), {})
    return {
        "directory": lambda: StateDirectory(tmp_path, "client-3"),
        "context": lambda: ContextStore(context),
        "simulation": lambda: ClientStates(tmp_path / "states").client(3),
    }[request.param]


def test_every_store_keeps_answers_beside_states(open_store, tmp_path):
    store = open_store()
    with store.locked("t1"):
        assert store.answers("t1") == Answers()
        answers = answers_of([(5, 2**64 - 1), (3, 0)])
        store.record("t1", answers)
        assert open_store().answers("t1") == answers
        full = answers_of((server_round, server_round) for server_round in range(1, 2 * RECENT))
        store.record("t1", full)
        assert open_store().answers("t1") == full
        assert store.load("t1") == []
    flush(tmp_path / "states")


def test_clients_of_a_simulation_have_records_of_their_own(tmp_path):
    states = ClientStates(tmp_path)
    states.client(1_000_000).record("t1", answers_of([(5, 1)]))
    assert states.client(999_999).answers("t1") == Answers()
    assert states.client(1_000_000).answers("t1").last == 5
    assert (tmp_path / "answered.bin").stat().st_blocks * 512 < 100_000


def test_a_damaged_record_keeps_the_client_out(tmp_path):
    store = StateDirectory(tmp_path, "client-3")
    with store.locked("t1"):
        store.record("t1", answers_of([(5, 1)]))
        (store.folder("t1") / "answered").write_text("{")
        with pytest.raises(Refusal, match=r"answered' cannot be read .* no part"):
            store.answers("t1")


def test_a_state_that_is_set_aside_leaves_the_answers(tmp_path):
    store = StateDirectory(tmp_path, "client-3")
    with store.locked("t1"):
        store.record("t1", answers_of([(5, 1)]))
        (store.folder("t1") / "state.json").write_text("{")
        assert store.load("t1") == []
        assert store.answers("t1").last == 5


def test_a_store_without_a_record_says_so():
    class Own(Store):
        def load(self, training):
            return []

        def save(self, training, versions):
            pass

    for call in (lambda: Own().answers("t1"), lambda: Own().record("t1", Answers())):
        with pytest.raises(Refusal, match="Own keeps no record of answered rounds"):
            call()


def test_digests_tell_models_apart():
    one = {"x": np.zeros(4, np.float32), "n": np.array(3)}
    digest = model_digest(one)
    assert digest == model_digest({"x": np.zeros(4, np.float32), "n": np.array(3)})
    for other in (
        {**one, "x": np.array([0, 0, 0, 1e-30], np.float32)},
        {**one, "x": np.zeros((2, 2), np.float32)},
        {"y": one["x"], "n": one["n"]},
    ):
        assert model_digest(other) != digest
