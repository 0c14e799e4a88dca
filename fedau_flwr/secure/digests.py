"""What a train message is about: its round, and hashes that are the same on both sides."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from flwr.app import RecordDict

from ..client.preparation import PREPARATION
from ..wire.requests import COUNTED, GROUPS, SECURE_RECORD, TRANSFORM, UNWEIGHTED, Request
from .cohort import Terms
from .message import Fields, RoundId, require

RECORD = SECURE_RECORD
"""The record that marks a message of the protocol and holds its fields."""
VECTOR = "fedau-secure.vector"
"""The record that holds the masked vector."""
REPORT = "report-clipping"
COMMON = (PREPARATION, TRANSFORM, GROUPS, UNWEIGHTED)
"""The entries of the config that decide what a contribution is: the same for all clients."""


def round_of(config: Mapping[str, object]) -> RoundId:
    """Return the round of a train message from its config."""
    # Which round a client was last counted in matters to itself only, and is a list for a host.
    request = Request.from_config({key: v for key, v in config.items() if key != COUNTED})
    return RoundId(request.training, request.attempt, request.round)


def model_digest(content: RecordDict) -> bytes:
    """Return the hash of all arrays of a train message, with names, types and shapes."""
    found = hashlib.sha256(b"fedau-flwr/secure/2/model/")
    for record, arrays in sorted(content.array_records.items()):
        for name, array in arrays.items():
            head = [record, name, array.dtype, list(array.shape), array.stype, len(array.data)]
            found.update(json.dumps(head).encode() + b"\n")
            found.update(array.data)
    return found.digest()


def config_digest(content: RecordDict, report: bool) -> bytes:
    """Return the hash of the config that all clients have in common."""
    shared: dict[str, Any] = {
        name: {key: config[key] for key in COMMON if key in config}
        for name, config in content.config_records.items()
        if name != RECORD
    }
    text = json.dumps([shared, report], sort_keys=True, default=repr)
    return hashlib.sha256(b"fedau-flwr/secure/2/config/" + text.encode()).digest()


def check_terms(content: RecordDict, terms: Terms | None, request: Fields) -> None:
    """Refuse to train another model, or in another way, than the keys of the round are for."""
    told = (terms.model, terms.config) if terms else (b"", b"")
    found = model_digest(content), config_digest(content, request.get(REPORT) is True)
    require(told == found, "the model or the config is not the one that this round is about")
