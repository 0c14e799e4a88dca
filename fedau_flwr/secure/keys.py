"""Key agreement, key derivation and sealing, with a label of its own for every purpose.

X25519 agrees on a secret, HKDF-SHA256 turns it into a key for one purpose, one round and one pair
of clients, and AES-256-GCM seals what one client sends to another through the server.
"""

import hashlib
import os
from enum import Enum

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from .message import KEY_BYTES, RefusalError

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
