import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulations.tasks import DataError
from simulations.tasks.split import dirichlet_split
from tests.fuzzing import examples

LABELS = np.random.default_rng(0).integers(0, 10, 5_000)


def split(labels=LABELS, **changed):
    options = {"num_clients": 25, "num_classes": 10, "alpha": 0.1, "seed": 1} | changed
    return dirichlet_split(labels, **options)


@settings(max_examples=examples(60), deadline=None)
@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    share=st.floats(0, 1),
    alpha=st.sampled_from([1e-6, 0.01, 0.1, 1.0, 1e6]),
    seed=st.integers(0, 2**31),
)
def test_each_sample_goes_to_exactly_one_client(labels, share, alpha, seed):
    labels = np.array(labels)
    clients = max(1, int(share * len(labels)))
    result = split(labels, num_clients=clients, num_classes=5, alpha=alpha, seed=seed)
    assert len(result) == clients
    np.testing.assert_array_equal(np.sort(result.indices), np.arange(len(labels)))
    assert result.sizes.sum() == len(labels)
    np.testing.assert_allclose(result.class_shares.sum(axis=1), 1)
    for n in range(clients):
        mine = labels[result.client(n)]
        if len(mine):
            expected = np.bincount(mine, minlength=5) / len(mine)
            np.testing.assert_allclose(result.class_shares[n], expected)


def test_the_seed_decides():
    again, other = split(), split(seed=2)
    np.testing.assert_array_equal(split().indices, again.indices)
    assert not np.array_equal(again.indices, other.indices)


def test_counts_are_rounded_cumulative_shares():
    kappa = np.random.default_rng([1, 0xDA7A]).dirichlet(np.full(10, 0.1), size=25)
    result = split()
    counts = np.rint(result.class_shares * result.sizes[:, None])
    exact = kappa / kappa.sum(axis=0) * np.bincount(LABELS, minlength=10)
    assert np.abs(counts - exact).max() <= 1
    assert np.abs(np.cumsum(counts - exact, axis=0)).max() <= 0.5 + 1e-9


def test_a_generator_draws_nothing_but_the_shares():
    generator, again = np.random.RandomState(1), np.random.RandomState(1)
    result = split(seed=generator)
    kappa = again.dirichlet(np.full(10, 0.1), 25)
    assert generator.random_sample() == again.random_sample()
    counts = np.rint(result.class_shares * result.sizes[:, None])
    exact = kappa / kappa.sum(axis=0) * np.bincount(LABELS, minlength=10)
    assert np.abs(np.cumsum(counts - exact, axis=0)).max() <= 0.5 + 1e-9
    for label in range(10):
        dealt = result.indices[LABELS[result.indices] == label]
        np.testing.assert_array_equal(dealt, np.flatnonzero(label == LABELS))


def test_large_alpha_gives_every_client_the_same_mixture():
    result = split(alpha=1e8)
    assert np.ptp(result.sizes) <= 10
    np.testing.assert_allclose(result.class_shares, 0.1, atol=0.02)


def test_an_empty_client_keeps_the_shares_it_was_drawn_with():
    result = split(LABELS[:30], num_clients=30)
    kappa = np.random.default_rng([1, 0xDA7A]).dirichlet(np.full(10, 0.1), size=30)
    assert len(result.empty) > 0
    np.testing.assert_array_equal(result.class_shares[result.empty], kappa[result.empty])
    assert all(len(result.client(n)) == 0 for n in result.empty)
    assert result.notice().startswith(f"{len(result.empty)} of 30 clients hold no training sample")
    assert split().notice() is None


def test_a_hundred_thousand_clients_take_no_time():
    labels = np.random.default_rng(0).integers(0, 10, 200_000)
    start = time.perf_counter()
    result = split(labels, num_clients=100_000)
    assert time.perf_counter() - start < 5
    assert len(result.empty) < 2_000


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"num_clients": 5_001}, r"clients is 5001, but must be at least 1 and at most 5000, the"),
        ({"num_clients": 0}, r"clients is 0, but must be at least 1 and at most"),
    ],
)
def test_bad_input_is_one_sentence(changed, sentence):
    with pytest.raises(DataError, match=sentence):
        split(**changed)
