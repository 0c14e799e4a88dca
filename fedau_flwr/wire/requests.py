"""What a train message says about participation, and what a client may answer with.

A client that trained cannot know that its reply arrived, but the server sees who was
counted. So every train message tells its receiver the last round in which it was counted,
and enough about the training's checkpoints for a client to follow a resumed server back.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

ROUND = "server-round"
TRAINING = "fedau-run"
ATTEMPTS = "fedau-attempts"
CLIENT = "fedau-client"
SAFE = "fedau-safe"
COUNTED = "fedau-counted"
TRANSFORM = "fedau-transform"
GROUPS = "fedau-groups"
UNWEIGHTED = "fedau-unweighted"
DELIVERY = "fedau-delivery"
"""Marks a train message that asks for no training: it brings something for those who were counted
in the round that it names."""
HOSTED = "fedau-clients"
"""Clients that a message addresses at one host; its `COUNTED` is then a list, -1 for None."""

SECURE_RECORD = "fedau-secure"
"""The record that marks a message of a secure sum and holds its fields."""
LABEL_RECORD = "fedau"
"""Name of the record that carries a reply's group, the one label that ever leaves a client."""
GROUP = "fedau-group"

WEIGHTED = '{"name": "weighted"}'
"""The transform of FedAU, for messages that name none."""

Scalar = bool | int | float | str | bytes


class Refusal(Exception):
    """Why a client does not answer a train message; becomes the reason of an error reply."""


@dataclass(frozen=True, slots=True)
class Request:
    """The participation fields of one train message.

    A resume begins a new attempt with a higher number; those listed led to the model as it is, and
    the last of them is running. No later attempt starts before the round after `safe`.
    """

    round: int  # Flower's, starting at 1
    training: str  # the same over all of its attempts
    client: int = 0  # the name under which the server counts this client
    attempts: tuple[tuple[int, int], ...] = ((1, 1),)  # number and first round of each
    counted: int | None = None  # the last counted round; 0 for none, None without a record of it
    safe: int | None = None  # the last checkpointed round; None if there are no checkpoints
    transform: str = WEIGHTED  # what the client does with its update, with parameters, as JSON
    groups: Mapping[str, float] = field(default_factory=dict)  # weights of groups of clients
    unweighted: tuple[int, ...] = ()  # positions of the model's arrays that have weight 1

    @property
    def attempt(self) -> int:
        """Number of the running attempt."""
        return self.attempts[-1][0]

    def to_config(self) -> dict[str, Scalar]:
        """Return the fields as entries of a config record, scalars as a `NumPyClient` needs."""
        config: dict[str, Scalar] = {
            ROUND: self.round,
            TRAINING: self.training,
            CLIENT: self.client,
            ATTEMPTS: ",".join(f"{number}@{start}" for number, start in self.attempts),
            TRANSFORM: self.transform,
        }
        if self.counted is not None:
            config[COUNTED] = self.counted
        if self.safe is not None:
            config[SAFE] = self.safe
        if self.groups:
            config[GROUPS] = json.dumps(dict(self.groups))
        if self.unweighted:
            config[UNWEIGHTED] = ",".join(map(str, self.unweighted))
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Read the fields of a train message; a bad one is refused in one sentence."""
        if TRAINING not in config:
            raise Refusal(
                f"The train message has no {TRAINING!r}, so its sender does not add up weighted "
                "updates: use fedau_flwr.FedAU, or another strategy of fedau_flwr, as the strategy."
            )
        training = config[TRAINING]
        if not isinstance(training, str) or not training.isidentifier():
            raise Refusal(f"{TRAINING} is {training!r}, but must be a name of letters and digits.")
        request = cls(
            round=_integer(config, ROUND, 1),
            training=training,
            client=_integer(config, CLIENT, 0),
            attempts=_attempts(config.get(ATTEMPTS)),
            counted=_integer(config, COUNTED, 0) if COUNTED in config else None,
            safe=_integer(config, SAFE, 0) if SAFE in config else None,
            transform=str(config.get(TRANSFORM, WEIGHTED)),
            groups=_group_weights(config.get(GROUPS, "{}")),
            unweighted=_positions(config.get(UNWEIGHTED, "")),
        )
        now, (number, start) = request.round, request.attempts[-1]
        if now < start:
            raise Refusal(f"{ROUND} is {now}, but attempt {number} started at round {start}.")
        if request.counted is not None and request.counted >= now:
            raise Refusal(f"{COUNTED} is {request.counted}, but must be before round {now}.")
        return request


def hosted_config(requests: Sequence[Request]) -> dict[str, Any]:
    """Return the entries of a message to a host: those of one client, and what differs in lists."""
    counted = [-1 if request.counted is None else request.counted for request in requests]
    clients = [request.client for request in requests]
    return {**requests[0].to_config(), HOSTED: clients, COUNTED: counted}


def hosted_requests(config: Mapping[str, Any]) -> dict[int, Request]:
    """Return the request of each client that a message to a host addresses."""
    clients, counted = config.get(HOSTED), config.get(COUNTED)
    if not isinstance(clients, list) or not isinstance(counted, list):
        raise Refusal(f"{HOSTED} is {clients!r}, but must be a list, and {COUNTED} one as well.")
    if len(clients) != len(counted):
        raise Refusal(f"{COUNTED} has {len(counted)} entries, but must have one per client.")
    common = Request.from_config({k: v for k, v in config.items() if k != COUNTED})
    return {
        client: replace(common, client=client, counted=None if last < 0 else last)
        for client, last in zip(clients, counted, strict=True)
    }


def _integer(config: Mapping[str, object], key: str, least: int) -> int:
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise Refusal(f"{key} is {value!r}, but must be an integer >= {least}.")
    return value


def _attempts(value: object) -> tuple[tuple[int, int], ...]:
    found = re.findall(r"([1-9][0-9]{0,17})@([1-9][0-9]{0,17})(?:,|$)", str(value))
    attempts = tuple((int(number), int(start)) for number, start in found)
    numbers = [number for number, _ in attempts]
    text = ",".join(f"{number}@{start}" for number, start in attempts)
    if not attempts or text != value or numbers != sorted(set(numbers)):
        rule = "list rising attempts and their first rounds as in '1@1,2@21'"
        raise Refusal(f"{ATTEMPTS} is {value!r}, but must {rule}.")
    return attempts


def _positions(value: object) -> tuple[int, ...]:
    if not isinstance(value, str) or not re.fullmatch(r"|[0-9]{1,9}(,[0-9]{1,9})*", value):
        raise Refusal(f"{UNWEIGHTED} is {value!r}, but must list positions as in '2,3'.")
    return tuple(int(number) for number in value.split(",") if number)


def _group_weights(value: object) -> dict[str, float]:
    try:
        table = json.loads(value) if isinstance(value, str) else None
    except ValueError:
        table = None
    if not isinstance(table, dict) or not all(
        isinstance(weight, int | float) and math.isfinite(weight) and weight >= 1
        for weight in table.values()
    ):
        raise Refusal(f"{GROUPS} is {value!r}, but must be a JSON object of weights >= 1.")
    return {name: float(weight) for name, weight in table.items()}
