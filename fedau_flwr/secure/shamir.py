"""Shamir sharing of 256-bit secrets.

pycryptodome shares 16 bytes over GF(2^128); a secret of 32 bytes is two of them, shared with
independent polynomials at the same points. Its `combine` interpolates through whatever it is
given: too few shares yield an unrelated value without an error, and more than needed cost time,
so exactly `threshold` of them are passed here.
"""

from collections.abc import Mapping

from Crypto.Protocol.SecretSharing import Shamir

from .message import KEY_BYTES

HALF = KEY_BYTES // 2


def split(secret: bytes, threshold: int, holders: int) -> list[bytes]:
    """Split `secret` so that any `threshold` of the `holders` shares give it back."""
    if len(secret) != KEY_BYTES or not 2 <= threshold <= holders:
        raise ValueError(f"cannot share {len(secret)} bytes {threshold}-out-of-{holders}")
    low = Shamir.split(threshold, holders, secret[:HALF], ssss=False)
    high = Shamir.split(threshold, holders, secret[HALF:], ssss=False)
    return [a + b for (_, a), (_, b) in zip(low, high, strict=True)]


def combine(shares: Mapping[int, bytes], threshold: int) -> bytes:
    """Recover a secret from shares by position (the first holder has position 1)."""
    if len(shares) < threshold:
        raise ValueError(f"{len(shares)} shares are fewer than the threshold {threshold}")
    chosen = sorted(shares.items())[:threshold]
    return b"".join(
        Shamir.combine([(position, share[half]) for position, share in chosen], ssss=False)
        for half in (slice(HALF), slice(HALF, KEY_BYTES))
    )
