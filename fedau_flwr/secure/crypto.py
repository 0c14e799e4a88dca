"""Key agreement, key derivation, sealing, sharing and masks.

X25519 agrees on a secret, HKDF-SHA256 turns it into a key for one purpose, one round and one pair
of clients, AES-256-GCM seals what one client sends to another through the server, and the key
stream of AES-256 in counter mode is a mask. Every mask has a key of its own, so the counter starts
at zero. With AES instructions it costs 0.4 ms for 551,786 words of 32 bits, half of ChaCha20.

pycryptodome shares 16 bytes over GF(2^128) (Shamir); a secret of 32 bytes is two of them, shared
with independent polynomials at the same points. Its `combine` interpolates through whatever it is
given: too few shares yield an unrelated value without an error, and more than needed cost time,
so exactly `threshold` of them are passed here.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from enum import Enum

import numpy as np
from Crypto.Protocol.SecretSharing import Shamir
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES256
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ..wire.fixed_point import Ring
from .message import KEY_BYTES, RefusalError

HALF = KEY_BYTES // 2
BLOCK_BYTES = 16
NONCE_BYTES = 12
SEAL_BYTES = NONCE_BYTES + 16


class Purpose(Enum):
    """What a derived value is for; no two purposes can ever share a key."""

    SHARE_SEALING = b"fedau-flwr/secure/1/share-sealing/"
    PAIRWISE_MASK = b"fedau-flwr/secure/1/pairwise-mask/"
    SELF_MASK = b"fedau-flwr/secure/1/self-mask/"
    SEED_COMMITMENT = b"fedau-flwr/secure/1/seed-commitment/"
    SEED_SHARE = b"fedau-flwr/secure/1/seed-share/"
    KEY_SHARE = b"fedau-flwr/secure/1/key-share/"


def generate() -> tuple[bytes, bytes]:
    """Return a fresh private key and its public key."""
    private = X25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw()


def public_of(private: bytes) -> bytes:
    """Return the public key of a private key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def check_public(public: bytes) -> None:
    """Refuse a public key with which nobody could agree on a secret."""
    # Any private key will do: a point of low order yields zero with all of them.
    _exchange(bytes(KEY_BYTES), public)


def derive(secret: bytes, purpose: Purpose, binding: bytes) -> bytes:
    """Derive a 256-bit key from `secret` for one purpose and one place in the protocol."""
    return HKDF(
        algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose.value + binding
    ).derive(secret)


def agree(private: bytes, public: bytes, purpose: Purpose, binding: bytes) -> bytes:
    """Derive the key that the owners of both keys share."""
    return derive(_exchange(private, public), purpose, binding)


def _exchange(private: bytes, public: bytes) -> bytes:
    try:
        return X25519PrivateKey.from_private_bytes(private).exchange(
            X25519PublicKey.from_public_bytes(public)
        )
    except ValueError:
        # The library rejects keys of low order, for which the shared secret is known to all.
        raise RefusalError("a public key is not a valid X25519 key") from None


def commit(secret: bytes, purpose: Purpose, binding: bytes) -> bytes:
    """Commit to 256 random bits: binding, and hiding because nobody can guess the bits."""
    return hashlib.sha256(purpose.value + binding + secret).digest()


def seal(key: bytes, plaintext: bytes, binding: bytes) -> bytes:
    """Encrypt and authenticate `plaintext` together with `binding`."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plaintext, binding)


def unseal(key: bytes, sealed: bytes, binding: bytes) -> bytes:
    """Open what `seal` made, or refuse."""
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], binding)
    except (InvalidTag, ValueError):
        raise RefusalError("a sealed share is not authentic for this round and sender") from None


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


def apply_masks(vector: Ring, *, plus: Iterable[bytes] = (), minus: Iterable[bytes] = ()) -> None:
    """Add the masks of the keys in `plus` to `vector` and subtract those in `minus`, in place."""
    zeros = bytes(vector.nbytes)
    stream = bytearray(vector.nbytes + BLOCK_BYTES - 1)
    # The bytes mean the same numbers on every machine, whatever its own byte order.
    mask = np.frombuffer(stream, vector.dtype.newbyteorder("<"), vector.size)
    for keys, operation in ((plus, np.add), (minus, np.subtract)):
        for key in keys:
            Cipher(AES256(key), CTR(bytes(BLOCK_BYTES))).encryptor().update_into(zeros, stream)
            operation(vector, mask, out=vector)
