"""The vectors in the repository, checked by other means than the code that wrote them."""

import hashlib
import hmac
import json
from pathlib import Path

import pytest
from Crypto.Cipher import AES
from Crypto.Protocol.DH import import_x25519_private_key, import_x25519_public_key, key_agreement
from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa

from fedau_flwr import secure

from .vectors import build

VECTORS = json.loads((Path(secure.__file__).parent / "vectors.json").read_text(encoding="utf-8"))
PRIME = 2**256 - 189
TAG = b"fedau-flwr/secure/2/"


def raw(section, key, number=None):
    value = VECTORS[section][key]
    return bytes.fromhex(value if number is None else value[number])


def hkdf(secret, info):
    pseudorandom = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(pseudorandom, info + b"\x01", "sha256")


def agreed(private, public):
    return key_agreement(
        static_priv=import_x25519_private_key(private),
        static_pub=import_x25519_public_key(public),
        kdf=bytes,
    )


def member(number):
    entry = raw("cohort", "cohort")[72 * number : 72 * (number + 1)]
    return entry[8:40], entry[40:]


def test_the_code_gives_the_vectors():
    assert build() == VECTORS


def test_statements_are_signed_by_who_is_in_the_roster():
    lines = [line.split(" = ") for line in VECTORS["identity"]["lines"]]
    text = json.dumps({name: key.strip('"') for name, key in lines})
    assert hashlib.sha256(TAG + b"roster/" + text.encode()).digest() == raw("identity", "roster")
    for number, (_, key) in enumerate(lines):
        public = ECC.import_key(
            bytes.fromhex("302a300506032b6570032100" + key.strip('"')), curve_name="Ed25519"
        )
        verifier = eddsa.new(public, "rfc8032")
        verifier.verify(
            VECTORS["keys"]["statement"][number].encode(), raw("keys", "signature", number)
        )
        if number == 0:
            verifier.verify(raw("survivors", "statement"), raw("survivors", "signature"))
        with pytest.raises(ValueError, match="not authentic"):
            verifier.verify(b"another statement", raw("keys", "signature", number))


def test_the_transcript_is_the_hash_of_terms_names_and_keys():
    terms, cohort = VECTORS["terms"], VECTORS["cohort"]
    values = ["training", 1, 3, terms["model-hash"], terms["config-hash"]]
    head = json.dumps([*values, VECTORS["identity"]["roster"]]).encode()
    assert hashlib.sha256(head).hexdigest() == terms["terms-hash"]
    names = json.dumps(cohort["names"].split("\n")).encode()
    parts = [raw("terms", "terms-hash"), hashlib.sha256(names).digest(), raw("cohort", "cohort")]
    found = hashlib.sha256(TAG + b"cohort/" + b"".join(parts))
    assert found.digest() == raw("cohort", "transcript")


def test_shares_lie_on_a_polynomial_and_open():
    points = [int(share, 16) for share in VECTORS["shares"]["f(0), f(1), f(2)"]]
    for x, share in enumerate(VECTORS["shares"]["f(1), …, f(5)"], 1):
        # Lagrange through 0, 1, 2, with inverses of 2 modulo p.
        half = pow(2, -1, PRIME)
        basis = ((x - 1) * (x - 2) * half, -x * (x - 2), x * (x - 1) * half)
        value = sum(b * p for b, p in zip(basis, points, strict=True)) % PRIME
        assert value == int(share, 16)
    binding = raw("shares", "binding (dealer 0, holder 1, number 1)")
    assert binding == raw("cohort", "transcript") + bytes.fromhex("000000000000000100000001")
    # From the holder's side.
    secret = agreed(raw("keys", "share-private", 1), member(0)[0])
    key = hkdf(secret, TAG + b"share-sealing/" + binding)
    assert key == raw("shares", "sealing-key")
    sealed = raw("shares", "sealed")
    cipher = AES.new(key, AES.MODE_GCM, nonce=sealed[:12])
    cipher.update(binding)
    opened = cipher.decrypt_and_verify(sealed[12:-16], sealed[-16:])
    assert opened == raw("shares", "f(1), …, f(5)", 1) + raw("shares", "key-share")
    for kind, share in (("seed", opened[:32]), ("key", opened[32:])):
        commitment = hashlib.sha256(TAG + f"{kind}-share/".encode() + binding + share).digest()
        assert commitment == raw("shares", f"{kind}-share-commitment")


def test_masks_are_key_streams():
    transcript = raw("cohort", "transcript")
    one = (1).to_bytes(4, "big")
    seed = raw("shares", "f(0), f(1), f(2)", 0)
    own = hkdf(seed, TAG + b"self-mask/" + transcript + one)
    assert own == raw("masks", "self-mask-key")
    pairs = []
    for peer in (0, 2):
        # From the peer's side.
        secret = agreed(raw("keys", "mask-private", peer), member(1)[1])
        places = b"".join(place.to_bytes(4, "big") for place in sorted((1, peer)))
        pairs.append(hkdf(secret, TAG + b"pairwise-mask/" + transcript + places))
        assert pairs[-1] == raw("masks", f"pairwise-key 1-{peer}")
    for name, size in (("uint32", 4), ("uint64", 8)):
        streams = [
            AES.new(key, AES.MODE_CTR, nonce=b"", initial_value=0).encrypt(bytes(5 * size))
            for key in (own, *pairs)
        ]
        masks = [
            [int.from_bytes(s[i * size : (i + 1) * size], "little") for i in range(5)]
            for s in streams
        ]
        expected = [
            (i + masks[0][i] + masks[1][i] - masks[2][i]) % 2 ** (8 * size) for i in range(5)
        ]
        assert VECTORS["masks"][f"0…4 masked, {name}"] == expected
