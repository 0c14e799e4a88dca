"""Whole rounds: the sum is right whoever drops out, and void rounds say so."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedau_flwr.secure import (
    Exchange,
    FixedPoint,
    Payload,
    SecureRound,
    Topology,
    VoidRoundError,
)
from tests.fuzzing import examples

from .protocol import OPEN, ROUND, SPARSE, any_graph, plain_sum, ring_vectors, roster_of, run_round


@settings(max_examples=examples(6))
@given(st.data())
def test_sum_equals_the_plain_sum_within_quantisation(data):
    cohort = data.draw(st.integers(2, 60), label="cohort")
    dtype = data.draw(st.sampled_from([np.float16, np.float32, np.float64]))
    shapes = data.draw(
        st.lists(st.lists(st.integers(1, 5), max_size=3).map(tuple), min_size=1, max_size=3).map(
            tuple
        )
    )
    ring_bits = data.draw(st.sampled_from([32, 64]))
    fixed = FixedPoint(value_range=4.0, bits=22, ring_bits=ring_bits, max_cohort=60)
    payload = Payload(shapes=shapes, fixed_point=fixed)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), label="seed"))
    ids = rng.integers(1, 2**64 - 1, cohort, dtype=np.uint64).tolist()
    inputs = {i: [np.asarray(rng.uniform(-4, 4, s), dtype) for s in shapes] for i in ids}
    sent = {c: [fixed.round(array, rng)[0] for array in arrays] for c, arrays in inputs.items()}
    outcome = run_round({client: payload.encode(arrays) for client, arrays in sent.items()})
    assert outcome.counted == set(ids)
    assert outcome.refused == {}
    arrays, _ = payload.decode(outcome.total)
    for place, array in enumerate(arrays):
        plain = sum(inputs[client][place].astype(np.float64) for client in ids)
        on_grid = sum(sent[client][place].astype(np.float64) for client in ids)
        assert np.abs(array - plain).max() < cohort * fixed.step
        assert np.array_equal(array, on_grid)


def expected(vanished, signed):
    """Return who is counted, or None for a void round, from the rules in words."""
    cohort = [c for c, at in vanished.items() if at is not Exchange.KEYS]
    needed = max(2, len(cohort) // 2 + 1)
    dealt = [c for c in cohort if vanished[c] is not Exchange.SHARES]
    sent = [c for c in dealt if vanished[c] is not Exchange.MASKED]
    checked = [c for c in sent if vanished[c] is not Exchange.CONSISTENCY]
    revealed = [c for c in checked if vanished[c] is not Exchange.UNMASK]
    if len(cohort) < 2 or min(len(dealt), len(sent), len(revealed)) < needed:
        return None
    if signed and len(checked) < 2 * len(cohort) // 3 + 1:
        return None
    return set(sent)


@pytest.mark.parametrize(("cohort", "signed"), [(2, False), (3, False), (4, False), (3, True)])
def test_every_pattern_of_dropouts(cohort, signed):
    vectors = ring_vectors(range(1, cohort + 1), 3)
    roster = roster_of(vectors) if signed else None
    exchanges = list(Exchange) if signed else OPEN
    void = 0
    for pattern in product([None, *exchanges], repeat=cohort):
        vanished = dict(zip(vectors, pattern, strict=True))
        counted = expected(vanished, signed)
        if counted is None:
            void += 1
            with pytest.raises(VoidRoundError, match="needed"):
                run_round(vectors, lost=vanished, roster=roster)
            continue
        outcome = run_round(vectors, lost=vanished, roster=roster)
        assert outcome.counted == counted, vanished
        assert np.array_equal(outcome.total, plain_sum(vectors, counted)), vanished
    assert 0 < void < (len(exchanges) + 1) ** cohort


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_dropouts_at_every_exchange_of_a_sparse_graph(dtype, signed):
    vectors = ring_vectors(range(100, 136), 7, dtype)
    exchanges = list(Exchange) if signed else OPEN
    lost = dict(zip(range(100, 100 + 2 * len(exchanges)), exchanges * 2, strict=True))
    outcome = run_round(vectors, lost=lost, roster=roster_of(vectors) if signed else None)
    counted = {c for c in vectors if lost.get(c) in (None, Exchange.CONSISTENCY, Exchange.UNMASK)}
    assert outcome.counted == counted
    assert np.array_equal(outcome.total, plain_sum(vectors, counted))
    # Every client drew for itself, and fewer than all.
    drawn = [reply["holders"] for reply in outcome.replies[Exchange.SHARES].values()]
    assert len(set(drawn)) == len(drawn)
    assert {len(places) // 4 for places in drawn} == {Topology().degree(34)}


def test_a_client_without_enough_holders_is_left_out_before_it_trains(monkeypatch):
    any_graph(monkeypatch)
    vectors = ring_vectors(range(12), 3)

    def draw(self, others, degree):
        (me,) = set(range(12)) - set(others)
        return [(me - 1) % 12, (me + 1) % 12]

    monkeypatch.setattr("random.SystemRandom.sample", draw)
    # Of two holders one may be lost.
    outcome = run_round(vectors, lost={4: Exchange.SHARES}, topology=SPARSE)
    assert outcome.counted == set(vectors) - {4}
    # With both gone, a client is left out before it trains.
    outcome = run_round(vectors, lost=dict.fromkeys((4, 6), Exchange.SHARES), topology=SPARSE)
    assert outcome.counted == set(vectors) - {4, 5, 6}
    assert 5 not in outcome.requests[Exchange.MASKED]
    with pytest.raises(VoidRoundError, match="dealt shares"):
        run_round(vectors, lost=dict.fromkeys(range(11), Exchange.SHARES), topology=SPARSE)


def test_a_sum_that_would_come_apart_is_void(monkeypatch):
    any_graph(monkeypatch)
    vectors = ring_vectors(range(8), 3)

    def draw(self, others, degree):
        (me,) = set(range(8)) - set(others)
        return [me // 4 * 4 + (me + step) % 4 for step in range(1, degree + 1)]

    monkeypatch.setattr("random.SystemRandom.sample", draw)
    with pytest.raises(VoidRoundError, match="within 2 parts of them, the smallest of 4"):
        run_round(vectors, topology=SPARSE)


def test_below_min_cohort_the_round_is_void_and_the_next_one_works():
    vectors = ring_vectors(range(1, 6), 4)
    with pytest.raises(VoidRoundError, match="2 clients sent keys, and 3 are needed"):
        run_round(vectors, min_cohort=3, lost=dict.fromkeys((1, 2, 3), Exchange.KEYS))
    assert run_round(vectors, min_cohort=3).counted == set(vectors)


def test_a_round_object_is_used_once_and_in_order():
    server = SecureRound(ROUND, size=3)
    with pytest.raises(RuntimeError, match="'shares' is not due"):
        server.collect_shares({})
    with pytest.raises(VoidRoundError):
        server.collect_keys({})
    with pytest.raises(RuntimeError, match="'keys' is not due"):
        server.collect_keys({})
