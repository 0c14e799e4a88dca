from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from fedau_flwr.secure.shamir import PRIME, combine, extended, random_secret, split
from tests.fuzzing import examples

SECRETS = st.integers(0, PRIME - 1).map(lambda number: number.to_bytes(32, "big"))


def test_the_modulus_is_prime():
    # Miller and Rabin with the first twelve primes, wrong for one number in 4^12 at most.
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37):
        powers = [pow(base, odd << step, PRIME) for step in range(twos)]
        assert powers[0] == 1 or PRIME - 1 in powers


def test_shares_are_the_values_of_a_polynomial():
    # f(x) = 5 + 7x + 11x², as anybody can check.
    f = [5 + 7 * x + 11 * x * x for x in range(8)]
    assert [int.from_bytes(share, "big") for share in extended(f[:3], 7)] == f[1:]
    # Modulo p: f(x) = (p-1) + x is 0, 1, 2 at x = 1, 2, 3.
    assert [int.from_bytes(s, "big") for s in extended([PRIME - 1, 0], 3)] == [0, 1, 2]


def test_any_threshold_of_the_shares_recover_and_fewer_do_not():
    secret = random_secret()
    shares = dict(enumerate(split(secret, 3, 5), 1))
    for count in (3, 4, 5):
        for chosen in combinations(shares, count):
            assert combine({place: shares[place] for place in chosen}, 3, 5) == secret
    for chosen in combinations(shares, 2):
        subset = {place: shares[place] for place in chosen}
        with pytest.raises(ValueError, match="fewer than the threshold"):
            combine(subset, 3, 5)
        assert combine(subset, 2, 5) != secret


@settings(max_examples=examples(50), deadline=None)
@given(st.data())
def test_recovery_from_any_subset(data):
    holders = data.draw(st.integers(2, 40))
    threshold = data.draw(st.integers(2, holders))
    chosen = data.draw(
        st.lists(st.integers(1, holders), min_size=threshold, max_size=holders, unique=True)
    )
    secret = data.draw(SECRETS)
    shares = split(secret, threshold, holders)
    subset = {place: shares[place - 1] for place in chosen}
    assert combine(subset, threshold, holders) == secret


def test_one_share_less_than_needed_is_uniform_whatever_the_secret():
    for secret in (bytes(32), b"\x07" * 32):
        counts = [0] * 256
        for _ in range(500):
            for share in split(secret, 3, 3)[1:]:
                for byte in share:
                    counts[byte] += 1
        assert chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize(
    ("secret", "threshold", "holders"),
    [
        (bytes(31), 2, 3),
        (bytes(32), 1, 3),
        (bytes(32), 4, 3),
        (PRIME.to_bytes(32, "big"), 2, 3),
        (b"\xff" * 32, 2, 3),
    ],
)
def test_impossible_sharings_are_refused(secret, threshold, holders):
    with pytest.raises(ValueError, match="cannot share"):
        split(secret, threshold, holders)
