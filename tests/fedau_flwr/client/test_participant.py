import numpy as np
import pytest

from fedau_flwr import FedAUWeighting, WeightState
from fedau_flwr.client.participant import Participant, settle
from fedau_flwr.client.store import Store, Version
from fedau_flwr.client.update import Disposable
from fedau_flwr.methods.fedau import WeightedUpdate
from fedau_flwr.methods.fedstale import StaleUpdate
from fedau_flwr.methods.mifa import UpdateChange
from fedau_flwr.wire.requests import Refusal, Request

W = FedAUWeighting(cutoff=None)
A27 = ((1, 1), (2, 7))


class MemoryStore(Store):
    def __init__(self):
        self.versions = []

    def load(self, training):
        return list(self.versions)

    def save(self, training, versions):
        self.versions = list(versions)


def after(*rounds, until):
    """The state before round `until` of a client that was counted in `rounds`."""
    state = W.initial()
    for r in range(1, until):
        state = W.advance(state, r in rounds)
    return state


def version(pending, *rounds, attempt=1, client=5, **arrays):
    return Version(pending, attempt, client, after(*rounds, until=pending), **arrays)


def request(r, counted=None, **fields):
    return Request(r, "t1", **{"client": 5, **fields}, counted=counted)


@pytest.mark.parametrize(
    ("versions", "asked", "expected"),
    [
        pytest.param([], request(1), after(until=1), id="first round"),
        pytest.param([], request(9), after(until=9), id="joins late: absent so far"),
        pytest.param([], request(9, 0), after(until=9), id="asked before, never counted"),
        pytest.param([version(4, 2)], request(9, 4), after(2, 4, until=9), id="counted"),
        pytest.param([version(4, 2)], request(9, 2), after(2, until=9), id="reply was lost"),
        pytest.param([version(4, 2)], request(9), after(2, 4, until=9), id="no record: trust own"),
        pytest.param(
            [version(4, 2)], request(9, 0, client=8), after(2, 4, until=9), id="or a new name"
        ),
        pytest.param(
            [version(4, 2)], request(9, attempts=A27), after(2, 4, until=9), id="of any attempt"
        ),
        pytest.param(
            [version(4, 2), version(6, 2, 4)],
            request(6, 4, attempts=((1, 1), (2, 5))),
            after(2, 4, until=6),
            id="resumed: back to before the attempt",
        ),
        pytest.param(
            [version(4, 2), version(6, 2, 4)],
            request(20, 4, attempts=((1, 1), (2, 5), (3, 15))),
            after(2, 4, until=20),
            id="an attempt that was slept through undid the newer version as well",
        ),
        pytest.param(
            [version(4, 2), version(9, 2, 4, attempt=2)],
            request(9, 4, attempts=((1, 1), (3, 8))),
            after(2, 4, until=9),
            id="an attempt that died without a checkpoint is forgotten",
        ),
    ],
)
def test_settles_the_pending_round(versions, asked, expected):
    assert settle(versions, asked, W).state == expected


def test_a_state_older_than_what_was_counted_skips_to_it_and_warns(caplog):
    assert settle([version(4, 2)], request(9, 7), W).state == after(2, 7, until=9)
    assert "counted this client in round 7, but its own record ends at round 4" in caplog.text


def test_a_lost_state_goes_on_from_the_last_counted_round(caplog):
    assert settle([], request(9, 7), W).state == after(7, until=9)
    assert "own record ends at round 0" in caplog.text


@pytest.mark.parametrize("asked", [request(4, 2), request(3, 2), request(4)])
def test_stale_rounds_are_refused(asked):
    with pytest.raises(Refusal, match="Stale delivery"):
        settle([version(4, 2)], asked, W)


def test_stale_attempts_are_refused():
    with pytest.raises(Refusal, match="already answered attempt 2"):
        settle([version(4, 2, attempt=2)], request(9, 4), W)


def test_the_same_round_of_a_new_attempt_is_not_stale():
    kept = [version(2), version(4, 2)]
    asked = request(4, 2, attempts=((1, 1), (2, 3)))
    assert settle(kept, asked, W).state == after(2, until=4)


def arrays(value):
    return {"x": np.array([value], np.float32)}


def test_memory_takes_in_what_was_counted_and_nothing_else():
    pending = version(4, 2, memory={"last": arrays(5.0)}, sent={"update": arrays(0.5)})
    counted = settle([pending], request(9, 4), W, UpdateChange())
    lost = settle([pending], request(9, 2), W, UpdateChange())
    assert counted.memory["last"]["x"] == 5.5
    assert lost.memory["last"]["x"] == 5.0


def test_the_first_vector_becomes_the_memory():
    pending = version(4, memory={}, sent={"update": arrays(0.5)})
    assert settle([pending], request(9, 4), W, UpdateChange()).memory["last"]["x"] == 0.5


@pytest.mark.parametrize("transform", [UpdateChange(), WeightedUpdate(), StaleUpdate(0.5)])
def test_a_single_number_is_an_array_like_any_other(transform):
    participant = Participant(MemoryStore(), W)
    model = {"x": np.array(1.0, np.float32), "y": np.ones(2, np.float32)}
    for number, counted in ((1, None), (4, 1), (5, 4)):
        asked = request(number, counted, transform=transform.to_text())
        parts = participant.contribute(
            asked, model, lambda start, r=number: {n: v + np.float32(r) for n, v in start.items()}
        )
        for part in parts.values():
            assert part["x"].shape == ()
            np.testing.assert_array_equal(part["x"], part["y"][0])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("statistics", [(), (1,)])
def test_a_trained_model_that_nobody_needs_gives_its_place_and_nothing_else(kind, statistics):
    rng = np.random.default_rng(1)
    model = {name: rng.standard_normal(3).astype(kind) for name in "xyz"}
    model["count"] = np.arange(2)
    trained = {name: value * 3 for name, value in model.items()}
    asked = request(4, None, unweighted=statistics)
    kept = {name: value.copy() for name, value in trained.items()}
    plain = Participant(MemoryStore(), W).contribute(asked, model, lambda _: trained)
    for name, value in kept.items():
        np.testing.assert_array_equal(trained[name], value)
    given = Disposable(kept)
    own = Participant(MemoryStore(), W).contribute(asked, model, lambda _: given)
    assert own["update"].keys() == plain["update"].keys() == {"x", "y", "z"}
    for name, value in plain["update"].items():
        assert own["update"][name].tobytes() == value.tobytes()
    assert own["update"]["x"] is given["x"] or kind is np.float16


ONES = {"last": {"x": np.ones(1, np.float32)}}


@pytest.mark.parametrize("versions", [[], [version(4, 2, memory=ONES, sent=ONES)]])
def test_a_client_that_lost_its_memory_refuses(versions):
    with pytest.raises(Refusal, match="cannot take part in this training any more"):
        settle(versions, request(9, 7), W, UpdateChange())


def rounds_kept(safe):
    participant = Participant(MemoryStore(), W)
    for r in (2, 4, 6, 8):
        asked = request(r, counted=max(0, r - 2), safe=safe)
        participant.contribute(asked, arrays(0.0), lambda x: x)
    return [v.round for v in participant.store.versions]


@pytest.mark.parametrize(
    ("safe", "kept"), [(None, [8]), (0, [2, 4, 6, 8]), (5, [4, 6, 8]), (6, [6, 8]), (7, [6, 8])]
)
def test_versions_that_a_resume_may_need_are_kept(safe, kept):
    assert rounds_kept(safe) == kept


def test_a_state_of_another_weighting_is_refused_and_kept():
    store = MemoryStore()
    store.versions = [Version(61, 1, 5, WeightState(60, 0, 60, 1.0))]
    with pytest.raises(Refusal, match="does not fit FedAUWeighting"):
        Participant(store, FedAUWeighting(50)).contribute(request(70), arrays(0.0), lambda x: x)
    assert len(store.versions) == 1


def test_nothing_is_stored_when_training_fails():
    store = MemoryStore()

    def fail(start):
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError):
        Participant(store, W).contribute(request(3), arrays(0.0), fail)
    assert store.versions == []
