import os
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from fedau_flwr.secure.crypto import combine, split
from tests.fuzzing import examples


def test_any_threshold_of_the_shares_recover_and_fewer_do_not():
    secret = os.urandom(32)
    shares = dict(enumerate(split(secret, 3, 5), 1))
    for chosen in combinations(shares, 3):
        assert combine({position: shares[position] for position in chosen}, 3) == secret
    for chosen in combinations(shares, 2):
        subset = {position: shares[position] for position in chosen}
        with pytest.raises(ValueError, match="fewer than the threshold"):
            combine(subset, 3)
        assert combine(subset, 2) != secret


@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_recovery_from_any_subset(data):
    holders = data.draw(st.integers(2, 20))
    threshold = data.draw(st.integers(2, holders))
    chosen = data.draw(
        st.lists(st.integers(1, holders), min_size=threshold, max_size=holders, unique=True)
    )
    secret = data.draw(st.binary(min_size=32, max_size=32))
    shares = split(secret, threshold, holders)
    assert combine({position: shares[position - 1] for position in chosen}, threshold) == secret


def test_one_share_less_than_needed_is_uniform_whatever_the_secret():
    for secret in (bytes(32), b"\x07" * 32):
        counts = [0] * 256
        for _ in range(500):
            for share in split(secret, 3, 3)[:2]:
                for byte in share:
                    counts[byte] += 1
        assert chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize(("size", "threshold", "holders"), [(31, 2, 3), (32, 1, 3), (32, 4, 3)])
def test_impossible_sharings_are_refused(size, threshold, holders):
    with pytest.raises(ValueError, match="cannot share"):
        split(bytes(size), threshold, holders)
