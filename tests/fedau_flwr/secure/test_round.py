"""Whole rounds: the sum is right whoever drops out, and void rounds say so."""

import random
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

from .protocol import ROUND, plain_sum, ring_vectors, run_round

EXCHANGES = list(Exchange)


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


def expected(vanished):
    """Return who is counted, or None for a void round, from the rules in words."""
    cohort = [c for c, at in vanished.items() if at is not Exchange.KEYS]
    needed = len(cohort) // 2 + 1
    dealt = [c for c in cohort if vanished[c] is not Exchange.SHARES]
    sent = [c for c in dealt if vanished[c] is not Exchange.MASKED]
    revealed = [c for c in sent if vanished[c] is not Exchange.UNMASK]
    if len(cohort) < 2 or min(len(dealt), len(sent), len(revealed)) < max(2, needed):
        return None
    return set(sent)


@pytest.mark.parametrize("cohort", [2, 3, 4])
def test_every_pattern_of_dropouts(cohort):
    vectors = ring_vectors(range(1, cohort + 1), 3)
    void = 0
    for pattern in product([None, *EXCHANGES], repeat=cohort):
        vanished = dict(zip(vectors, pattern, strict=True))
        counted = expected(vanished)
        if counted is None:
            void += 1
            with pytest.raises(VoidRoundError, match="needed"):
                run_round(vectors, lost=vanished)
            continue
        outcome = run_round(vectors, lost=vanished)
        assert outcome.counted == counted, vanished
        assert np.array_equal(outcome.total, plain_sum(vectors, counted)), vanished
    assert 0 < void < 5**cohort


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_dropouts_at_every_exchange_of_a_sparse_graph(dtype):
    vectors = ring_vectors(range(100, 130), 7, dtype)
    lost = dict(zip(range(100, 108), EXCHANGES * 2, strict=True))
    outcome = run_round(vectors, lost=lost, topology=Topology(min_degree=12))
    counted = {c for c in vectors if lost.get(c) in (None, Exchange.UNMASK)}
    assert outcome.counted == counted
    assert np.array_equal(outcome.total, plain_sum(vectors, counted))


def test_a_client_without_enough_neighbours_is_left_out_before_it_trains():
    vectors = ring_vectors(range(12), 3)
    topology = Topology(min_degree=2, colluding=0, dropping=0)
    # On a ring of two neighbours, losing one of them leaves two of three: still the threshold.
    outcome = run_round(vectors, lost={4: Exchange.SHARES}, topology=topology)
    assert outcome.counted == set(vectors) - {4}
    # Losing every other client isolates the rest.
    with pytest.raises(VoidRoundError, match="dealt shares"):
        run_round(vectors, lost=dict.fromkeys(range(10), Exchange.SHARES), topology=topology)


def test_a_sum_that_would_come_apart_is_void():
    vectors = ring_vectors(range(12), 3)
    topology = Topology(min_degree=4, colluding=0, dropping=0)
    circle = list(range(12))
    random.Random(0).shuffle(circle)

    def lose(*places):
        lost = {circle[place]: Exchange.MASKED for place in places}
        return run_round(vectors, lost=lost, topology=topology, seed=0)

    # Every neighbourhood keeps its three of five, and all secrets could be recovered.
    with pytest.raises(VoidRoundError, match="within 2 parts of them, the smallest of 4"):
        lose(0, 1, 6, 7)
    # With one gap the others are still joined around the circle.
    assert len(lose(0, 1).counted) == 10
    assert len(lose(0, 1, 6).counted) == 9


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
