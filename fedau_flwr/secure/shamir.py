"""Shamir's secret sharing of 32 bytes over the prime field of p = 2^256 - 189.

The dealer draws f(1), …, f(t-1) at random and lets f(0) be the secret, which is the same as drawing
a random polynomial of degree below t; the remaining shares follow by repeated differences, with
additions alone. Share x is f(x), the integers 1, …, h being the places of the holders.

To recover, let Y be the places without a share. Lagrange's formula at 0 over all other places is

    f(0) = 1/∏_{y∈Y} y · Σ_{j∉Y} (-1)^(j-1) · C(h, j) · ∏_{y∈Y} (y - j) · f(j)   (mod p)

which takes one inversion for a set of places, and nothing new at all while nobody is missing.
"""

import secrets
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from math import comb, prod
from operator import sub

PRIME = 2**256 - 189
SHARE_BYTES = 32


def random_secret() -> bytes:
    """Return a random secret that can be shared."""
    return _to_bytes(secrets.randbelow(PRIME))


def split(secret: bytes, threshold: int, holders: int) -> list[bytes]:
    """Split `secret` so that any `threshold` of the `holders` shares give it back."""
    number = int.from_bytes(secret, "big")
    if len(secret) != SHARE_BYTES or number >= PRIME or not 2 <= threshold <= holders:
        raise ValueError(
            f"cannot share {len(secret)} bytes {threshold}-out-of-{holders}: a secret is a number "
            "of 32 bytes below 2^256 - 189, and the threshold between 2 and the holders"
        )
    return extended([number, *(secrets.randbelow(PRIME) for _ in range(threshold - 1))], holders)


def extended(values: list[int], holders: int) -> list[bytes]:
    """Return f(1), …, f(holders) of the polynomial through f(0), f(1), … as in `values`."""
    shares, row, differences = values[1:], values, []
    while row:
        differences.append(row[-1])
        row = list(map(sub, row[1:], row))
    differences.reverse()
    for _ in range(holders - len(shares)):
        differences = list(accumulate(differences))
        shares.append(differences[-1])
    return [_to_bytes(share % PRIME) for share in shares]


def combine(shares: Mapping[int, bytes], threshold: int, holders: int) -> bytes:
    """Recover a secret from at least `threshold` shares by place, the first holder's being 1."""
    if len(shares) < threshold:
        raise ValueError(f"{len(shares)} shares are fewer than the threshold {threshold}")
    places = tuple(sorted(shares))
    total = sum(
        weight * int.from_bytes(shares[place], "big")
        for place, weight in zip(places, _weights(places, holders), strict=True)
    )
    return _to_bytes(total % PRIME)


@lru_cache(maxsize=4)
def _weights(places: tuple[int, ...], holders: int) -> list[int]:
    missing = sorted(set(range(1, holders + 1)).difference(places))
    inverse = pow(prod(missing), -1, PRIME)
    signed = _signed_binomials(holders)
    return [
        signed[place - 1] * prod(empty - place for empty in missing) % PRIME * inverse % PRIME
        for place in places
    ]


@lru_cache(maxsize=64)
def _signed_binomials(holders: int) -> list[int]:
    return [comb(holders, j) * (1 if j % 2 else -1) % PRIME for j in range(1, holders + 1)]


def _to_bytes(number: int) -> bytes:
    return number.to_bytes(SHARE_BYTES, "big")
