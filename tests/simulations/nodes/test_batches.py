import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedau_flwr import Bernoulli
from simulations.nodes.batches import Turns, batch_positions, continued_positions


@given(
    size=st.integers(1, 200),
    steps=st.integers(1, 8),
    batch=st.integers(1, 32),
    seed=st.integers(0, 2**32),
)
def test_batches_pass_over_shuffled_data_without_short_ones(size, steps, batch, seed):
    got = batch_positions(size, steps=steps, batch=batch, rng=np.random.default_rng(seed))
    assert got.shape == (steps, min(size, batch))
    assert got.min() >= 0
    assert got.max() < size
    per_pass = max(1, size // batch)
    for first in range(0, steps, per_pass):
        within = got[first : first + per_pass].ravel()
        assert len(np.unique(within)) == len(within)


@given(
    size=st.integers(1, 200),
    batch=st.integers(1, 32),
    turns=st.lists(st.integers(1, 8), min_size=1, max_size=6),
    seed=st.integers(0, 2**32),
)
def test_continued_batches_are_one_sequence_however_it_is_cut(size, batch, turns, seed):
    whole = continued_positions(size, first=0, steps=sum(turns), batch=batch, seed=(seed, 7))
    firsts = np.cumsum([0, *turns[:-1]])
    pieces = [
        continued_positions(size, first=int(first), steps=steps, batch=batch, seed=(seed, 7))
        for first, steps in zip(firsts, turns, strict=True)
    ]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    per_pass = max(1, size // batch)
    for first in range(0, len(whole), per_pass):
        within = whole[first : first + per_pass].ravel()
        assert len(np.unique(within)) == len(within)


def test_passes_are_shuffled_anew_and_clients_apart():
    first, second = (
        continued_positions(64, first=at, steps=4, batch=16, seed=(1, 2)).ravel() for at in (0, 4)
    )
    assert sorted(first) == sorted(second) == list(range(64))
    assert first.tolist() != second.tolist()
    other = continued_positions(64, first=0, steps=4, batch=16, seed=(1, 3)).ravel()
    assert first.tolist() != other.tolist()


def test_turns_are_counted_from_the_path_in_any_order():
    process = Bernoulli([0.2, 0.7, 1.0], 1)
    path = np.array([process.active(t) for t in range(30)])
    turns = Turns(process)
    for t in (0, 3, 3, 29, 10, 0, 30):
        np.testing.assert_array_equal(turns.before(t), path[:t].sum(axis=0))
