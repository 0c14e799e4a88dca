"""What the owner of a node lets leave it: the node config decides, whatever a run asks for."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from math import inf
from typing import Any

from flwr.app import Context

from ..checks import check
from ..wire.requests import Refusal
from .state_directory import STATE_DIR

REQUIRE_SECURE = "fedau-require-secure"
ALLOW = "fedau-allow"
ALLOW_APPS = "fedau-allow-apps"
MIN_COHORT = "fedau-min-cohort"
MIN_NOISE = "fedau-min-noise-multiplier"
COLLUDING = "fedau-colluding"
EPSILON = "fedau-epsilon"
DELTA = "fedau-delta"
KEYS = (REQUIRE_SECURE, ALLOW, ALLOW_APPS, MIN_COHORT, MIN_NOISE, COLLUDING, EPSILON, DELTA)
_OTHERS = (STATE_DIR, "fedau-group", "fedau-roster", "fedau-allow-import")

under_mask: ContextVar[bool] = ContextVar("under_mask", default=False)
"""Set while `SecureSumMod` lets the app train: what is returned then leaves under a mask."""


@dataclass(frozen=True, slots=True)
class NodePolicy:
    """The protection that a node config asks for. It can only add to what an app has of its own.

    Parameters
    ----------
    require_secure : bool
        ``fedau-require-secure``: nothing but a part of a secure sum leaves the node.
    allow : frozenset[str]
        ``fedau-allow="evaluate,query"``: types of messages that are answered in clear even then.
    apps : frozenset[str]
        ``fedau-allow-apps``: SHA-256 of the apps that may run; empty for any.
    min_cohort, colluding : int
        ``fedau-min-cohort``, ``fedau-colluding``: see `SecureSumMod`.
    min_noise_multiplier : float
        ``fedau-min-noise-multiplier``: see `SecureSumMod`.
    epsilon, delta : float
        ``fedau-epsilon``, ``fedau-delta``: the privacy that this client gives away at most, over
        all trainings; 0 for no limit.
    """

    require_secure: bool = False
    allow: frozenset[str] = frozenset()
    apps: frozenset[str] = frozenset()
    min_cohort: int = 0
    colluding: int = 0
    min_noise_multiplier: float = 0.0
    epsilon: float = 0.0
    delta: float = 1e-5

    @classmethod
    def of(cls, context: Context) -> NodePolicy:
        """Read a node config; what cannot be read is refused, since it may protect something."""
        return _read(tuple(sorted(context.node_config.items())))

    def check_type(self, message_type: str) -> None:
        """Refuse to answer a message in clear unless the owner allows it."""
        kind = message_type.split(".", maxsplit=1)[0]
        if self.require_secure and kind not in self.allow:
            raise Refusal(
                f"{REQUIRE_SECURE} is true on this node, so it answers no {kind!r} message in "
                f'clear; its owner can allow that with {ALLOW}="{kind}".'
            )

    def check_contribution(self) -> None:
        """Refuse to send a contribution in clear."""
        if self.require_secure and not under_mask.get():
            raise Refusal(
                f"{REQUIRE_SECURE} is true on this node, so it sends no contribution in clear: "
                "the app needs SecureSumMod outside of FedAUMod, and the strategy SecureSum."
            )
        if self.epsilon and not under_mask.get():
            raise Refusal(
                f"{EPSILON} is {self.epsilon:g} on this node, which counts only noise of its own: "
                "the app needs SecureSumMod outside of FedAUMod, and the strategy SecureSum."
            )


@lru_cache(maxsize=8)
def _read(items: tuple[tuple[str, Any], ...]) -> NodePolicy:
    config = dict(items)
    for key in config:
        if key.startswith("fedau-") and key not in (*KEYS, *_OTHERS):
            for meant in get_close_matches(key, KEYS, 1, cutoff=0.85):
                raise Refusal(f"{key} is in the node config, but must be {meant!r}.")
    policy = NodePolicy(
        require_secure=_value(config, REQUIRE_SECURE, False, "true or false"),
        allow=_names(config, ALLOW),
        apps=frozenset(name.lower() for name in _names(config, ALLOW_APPS)),
        min_cohort=_number(config, MIN_COHORT, 0, int),
        colluding=_number(config, COLLUDING, 0, int),
        min_noise_multiplier=_number(config, MIN_NOISE, 0.0, float),
        epsilon=_number(config, EPSILON, 0.0, float),
        delta=_number(config, DELTA, 1e-5, float),
    )
    for app in policy.apps:
        fine = len(app) == 64 and set(app) <= set("0123456789abcdef")
        check(f"one of {ALLOW_APPS}", app, fine, "SHA-256 in 64 hex digits", Refusal)
    fine = not policy.epsilon or 0 < policy.delta < 1
    check(DELTA, policy.delta, fine, "strictly between 0 and 1", Refusal)
    if (policy.require_secure or policy.epsilon) and not config.get(STATE_DIR):
        key = REQUIRE_SECURE if policy.require_secure else EPSILON
        raise Refusal(
            f"{STATE_DIR} is missing, but must be in the node config where {key} is: what was "
            "answered has to outlive a restart."
        )
    return policy


def _value(config: Mapping[str, Any], key: str, default: Any, rule: str) -> Any:
    value = config.get(key, default)
    check(key, value, type(value) is type(default), rule, Refusal)
    return value


def _names(config: Mapping[str, Any], key: str) -> frozenset[str]:
    text = _value(config, key, "", 'names with commas between them, as in "evaluate,query"')
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _number(config: Mapping[str, Any], key: str, default: Any, kind: type) -> Any:
    value = config.get(key, default)
    rule = "an integer >= 0" if kind is int else "a number >= 0"
    check(key, value, type(value) in (int, kind) and 0 <= value < inf, rule, Refusal)
    return kind(value)
