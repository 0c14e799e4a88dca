"""Test vectors of every derivation of the secure sum, from fixed inputs.

``python -m tests.fedau_flwr.secure.vectors > fedau_flwr/secure/vectors.json`` writes them. Byte
strings are in hexadecimal.
"""

import json
from hashlib import sha256
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from flwr.app import ConfigRecord, RecordDict

from fedau_flwr.client.preparation import Preparation
from fedau_flwr.secure import FixedPoint, Identity, Roster, RoundId, Topology
from fedau_flwr.secure.cohort import Cohort, Member, Terms, bind, quorum, survivors_statement
from fedau_flwr.secure.crypto import Agreement, Purpose, apply_masks, commit, derive, public_of
from fedau_flwr.secure.dealing import pairwise_key
from fedau_flwr.secure.digests import config_digest, model_digest
from fedau_flwr.secure.message import pack_places, pack_set
from fedau_flwr.secure.shamir import combine, extended
from fedau_flwr.wire.records import encode
from fedau_flwr.wire.requests import Request


def fixed(label: str) -> bytes:
    """Return 32 bytes that anybody can make: the hash of a label."""
    return sha256(label.encode()).digest()


def build() -> dict[str, Any]:
    names = ("hospital-a", "hospital-b", "hospital-c")
    identities = [Identity(name, fixed(f"identity {name}")) for name in names]
    roster = Roster({one.name: one.public for one in identities})
    content = RecordDict({"arrays": encode({"x": np.arange(4, dtype=np.float32)})})
    asked = Preparation(grid=FixedPoint()).to_config()
    content["config"] = ConfigRecord({**Request(3, "training").to_config(), **asked})
    model, config = model_digest(content), config_digest(content, False)
    terms = Terms(RoundId("training", 1, 3), model, config, roster.digest)
    privates = [(fixed(f"share {name}"), fixed(f"mask {name}")) for name in names]
    members, statements = [], []
    for number, (one, (share, mask)) in enumerate(zip(identities, privates, strict=True)):
        member = Member(1000 + number, public_of(share), public_of(mask), one.name)
        statements.append(terms.statement(member))
        members.append(member._replace(signature=one.sign(statements[-1])))
    cohort = Cohort(members)
    transcript = cohort.transcript(terms)
    return {
        "identity": {
            "private": [fixed(f"identity {name}").hex() for name in names],
            "lines": [one.line for one in identities],
            "roster": roster.digest.hex(),
        },
        "terms": {
            "config": {k: v for k, v in content["config"].items() if k in asked},
            "model-hash": model.hex(),
            "config-hash": config.hex(),
            "terms-hash": terms.digest().hex(),
        },
        "keys": {
            "share-private": [share.hex() for share, _ in privates],
            "mask-private": [mask.hex() for _, mask in privates],
            "statement": [text.decode() for text in statements],
            "signature": [member.signature.hex() for member in members],
        },
        "cohort": {
            **{k: v if isinstance(v, str) else v.hex() for k, v in cohort.to_fields().items()},
            "transcript": transcript.hex(),
        },
        "shares": shares(privates, members, transcript),
        "masks": masks(privates, members, transcript),
        "survivors": survivors(identities[0], transcript),
        "packing": {
            "places": [[0, 1, 258], pack_places([0, 1, 258]).hex()],
            "set": [[0, 3, 9], 11, pack_set([0, 3, 9], 11).hex()],
        },
        "numbers": [
            {"cohort": n, "degree": Topology().degree(n), "quorum": quorum(n)}
            for n in (3, 5, 17, 25, 100, 1000)
        ],
    }


def shares(privates: Any, members: Any, transcript: bytes) -> dict[str, Any]:
    """Return what the first client deals to the second, and how it comes together again."""
    points = [fixed("seed"), fixed("point 1"), fixed("point 2")]
    dealt = extended([int.from_bytes(point, "big") for point in points], 5)
    key_share, nonce, number = fixed("key share"), fixed("nonce")[:12], 1
    binding = bind(transcript, 0, 1, number)
    key = Agreement(privates[0][0]).key(members[1].share_key, Purpose.SHARE_SEALING, binding)
    sealed = nonce + AESGCM(key).encrypt(nonce, dealt[number] + key_share, binding)
    found = {place: dealt[place - 1] for place in (1, 3, 4)}
    assert combine(found, 3, 5) == points[0]
    return {
        "f(0), f(1), f(2)": [point.hex() for point in points],
        "f(1), …, f(5)": [share.hex() for share in dealt],
        "f(0) from f(1), f(3), f(4)": points[0].hex(),
        "binding (dealer 0, holder 1, number 1)": binding.hex(),
        "sealing-key": key.hex(),
        "nonce": nonce.hex(),
        "key-share": key_share.hex(),
        "sealed": sealed.hex(),
        "seed-commitment": commit(points[0], Purpose.SEED_COMMITMENT, bind(transcript, 0)).hex(),
        "seed-share-commitment": commit(dealt[number], Purpose.SEED_SHARE, binding).hex(),
        "key-share-commitment": commit(key_share, Purpose.KEY_SHARE, binding).hex(),
    }


def masks(privates: Any, members: Any, transcript: bytes) -> dict[str, Any]:
    """Return the masks of the second client, and a vector under them."""
    own = derive(fixed("seed"), Purpose.SELF_MASK, bind(transcript, 1))
    agreement = Agreement(privates[1][1])
    pairs = {
        peer: pairwise_key(agreement, transcript, members[peer].mask_key, 1, peer)
        for peer in (0, 2)
    }
    result: dict[str, Any] = {"self-mask-key": own.hex()}
    result |= {f"pairwise-key 1-{peer}": key.hex() for peer, key in pairs.items()}
    for dtype in (np.uint32, np.uint64):
        vector = np.arange(5, dtype=dtype)
        apply_masks(vector, plus=[own, pairs[0]], minus=[pairs[2]])
        result[f"0…4 masked, {np.dtype(dtype).name}"] = vector.tolist()
    return result


def survivors(identity: Identity, transcript: bytes) -> dict[str, Any]:
    """Return what the first client signs in the consistency check."""
    packed = pack_set([0, 1, 2], 3)
    statement = survivors_statement(transcript, packed)
    return {
        "survivors": packed.hex(),
        "statement": statement.hex(),
        "signature": identity.sign(statement).hex(),
    }


if __name__ == "__main__":
    print(json.dumps(build(), indent=1, ensure_ascii=False))
