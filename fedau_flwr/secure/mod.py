"""`SecureSumMod`: the client's side of a secure sum, as a Flower mod."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MessageType,
    RecordDict,
)

from .. import _flower
from .._log import log
from ..arrays import is_averaged
from ..client.mod import CallNext
from ..client.preparation import PREPARATION, Preparation
from ..client.state_directory import STATE_DIR, state_directory
from ..wire.parts import PARTS_RECORD
from ..wire.records import decode_all
from ..wire.requests import HOSTED, LABEL_RECORD, Refusal
from .answered import record_answer
from .client import SecureClient
from .digests import RECORD, REPORT, config_digest, model_digest
from .graph import Topology
from .identity import Identity, IdentityError, Roster
from .message import Exchange, RefusalError, RoundId, require
from .payload import Payload

ROSTER = "fedau-roster"
VECTOR = "fedau-secure.vector"
"""The record that holds the masked vector."""


class SecureSumMod:
    """A Flower mod that lets nothing leave the client but its part of a secure sum.

    Put it outside of `FedAUMod`: ``ClientApp(mods=[SecureSumMod(), FedAUMod()])``. The strategy
    needs ``summation=SecureSum(...)``. A client with this mod answers no train message in clear,
    whatever the server asks.

    Parameters
    ----------
    min_cohort : int (default: 3)
        The smallest number of clients, itself included, among whom this client hides.
    min_noise_multiplier : float (default: 0.0)
        The least noise on the sum, in units of the norm to which contributions are clipped, with
        which this client takes part. The server says how much there is to be; this is the
        client's own word, for each round.
    colluding : int (default: 0)
        How many clients of its neighbourhood may tell the server their share of the noise. The
        client's own share is enlarged so that the noise of the others alone is what was promised.
    topology : Topology (default: Topology())
        The fraction of clients that may collude with the server, and how many shares a secret
        takes: what this client has the server's choices meet.

    Notes
    -----
    With ``fedau-roster`` in the node config, the path of a roster (`fedau keys`), the client takes
    part only with clients that are in it and were told the same; its own key is in the directory
    that the node config names as ``fedau-state-dir``.

    The secrets of a round are kept in `Context.state` until the round is over, out of sight of
    the app while it trains; a SuperNode that stops in between loses this round and nothing else.

    Flower sends a reply before it keeps the context, and starts a process for every message. Two
    messages at once therefore find the same state, and a server that is up to no good could have
    the same client answer twice. The directory that the node config names as ``fedau-state-dir``
    rules this out: what was answered is recorded there before a reply leaves.
    """

    def __init__(
        self,
        *,
        min_cohort: int = 3,
        min_noise_multiplier: float = 0.0,
        colluding: int = 0,
        topology: Topology | None = None,
    ) -> None:
        SecureClient(0, min_cohort=min_cohort)
        if not 0 <= min_noise_multiplier < inf:
            raise ValueError(
                f"min_noise_multiplier={min_noise_multiplier} must be finite and not negative."
            )
        if not 0 <= colluding < min_cohort:
            raise ValueError(
                f"colluding={colluding} must be at least 0 and below min_cohort={min_cohort}."
            )
        self._min_cohort = min_cohort
        self._min_noise_multiplier = min_noise_multiplier
        self._colluding = colluding
        self._topology = topology

    def __call__(self, message: Message, context: Context, call_next: CallNext) -> Message:
        """Handle one message; all but train messages pass through."""
        if message.metadata.message_type.split(".")[0] != MessageType.TRAIN:
            return call_next(message, context)
        try:
            return self._answer(message, context, call_next)
        except (RefusalError, Refusal) as refusal:
            words = str(refusal).rstrip(".")
            log.error("Refused a message of a secure sum: %s.", words)
            error = Error(_flower.ErrorCode.MOD_FAILED_PRECONDITION, f"refused: {words}")
            return Message(error, reply_to=message)

    def _answer(self, message: Message, context: Context, call_next: CallNext) -> Message:
        with _guarded():
            secure = RECORD in message.content.config_records
            require(secure, "this client takes part in secure sums only")
            request: dict[str, Any] = {**message.content.config_records[RECORD]}
            client = self._client(context)
            exchange = request.get("exchange")
        if exchange == Exchange.MASKED:
            return self._masked(message, context, call_next, client, request)
        with _guarded():
            if exchange == Exchange.SHARES:
                reply: dict[str, Any] = {**client.deal_shares(request)}
            elif exchange == Exchange.CONSISTENCY:
                reply = {**client.sign_survivors(request)}
            elif exchange == Exchange.UNMASK:
                reply = {**client.unmask(request)}
            else:  # also for what is no exchange at all, which it refuses
                reply = {**client.offer_keys(request)}
                if not context.node_config.get(ROSTER):
                    log.info("No %s: the server is trusted to follow the protocol.", ROSTER)
            self._leave(context, client, request)
        return Message(RecordDict({RECORD: ConfigRecord(reply)}), reply_to=message)

    def _client(self, context: Context) -> SecureClient:
        identity, roster = _membership(context)
        state = context.state.config_records.get(RECORD, ConfigRecord()).get("state")
        return SecureClient(
            context.node_id,
            min_cohort=self._min_cohort,
            topology=self._topology,
            identity=identity,
            roster=roster,
            state=state if isinstance(state, bytes) else None,
        )

    def _masked(
        self,
        message: Message,
        context: Context,
        call_next: CallNext,
        client: SecureClient,
        request: dict[str, Any],
    ) -> Message:
        with _guarded():
            client.accept_shares(request)
            _check_terms(message.content, client, request)
            del message.content[RECORD]
            preparation = self._share_noise(message.content, client)
            if preparation.grid is None:
                raise RefusalError(f"the train message has no '{PREPARATION}' with a grid")
            context.state.pop(RECORD, None)
        try:
            reply = call_next(message, context)
        finally:
            _keep(context, client)
        if reply.has_error():
            return reply
        with _guarded():
            arrays, hosted = _contribution(reply.content)
            payload = Payload(
                shapes=tuple(value.shape for value in arrays),
                fixed_point=preparation.grid,
                report_clipping=request.get(REPORT) is True,
            )
            try:
                vector = payload.encode(arrays, clients=max(len(hosted), 1))
            except ValueError as error:
                raise RefusalError(f"the contribution cannot be summed: {error}") from None
            fields, masked = client.mask(vector)
            self._leave(context, client, request)
        content = RecordDict({RECORD: ConfigRecord({**fields, "hosted": hosted})})
        content[VECTOR] = ArrayRecord({"masked": Array(masked)})
        return Message(content, reply_to=message)

    def _share_noise(self, content: RecordDict, client: SecureClient) -> Preparation:
        """Turn the noise that the sum must have into this client's share of it.

        The client reckons with the fewest clients that it would help to unmask, and so need not
        believe the server in how many there are.
        """
        config = next((c for c in content.config_records.values() if PREPARATION in c), None)
        asked = Preparation.from_config(config or {})
        if asked.noise_multiplier < self._min_noise_multiplier:
            raise RefusalError(
                f"a noise multiplier of {asked.noise_multiplier:.6g} is below this client's "
                f"min_noise_multiplier={self._min_noise_multiplier}"
            )
        shared = asked.shared(client.least_survivors, self._colluding)
        if config is not None:
            config.update(shared.to_config())
        return shared

    def _leave(self, context: Context, client: SecureClient, request: dict[str, Any]) -> None:
        """Keep the state that belongs to an answer, and record the answer before it leaves."""
        if (directory := state_directory(context)) is not None:
            exchange = Exchange(request["exchange"])
            current = RoundId.of(request, exchange)
            record_answer(directory.folder(current.run), current, exchange)
        _keep(context, client)


@contextmanager
def _guarded() -> Iterator[None]:
    """Turn whatever goes wrong with a message into a refusal of a fixed reason."""
    try:
        yield
    except (RefusalError, Refusal):
        raise
    except IdentityError as error:
        log.error("%s", error)
        raise RefusalError(f"this client cannot use its {ROSTER} or its key") from None
    except Exception as error:
        log.error("A message of a secure sum could not be answered: %s.", type(error).__name__)
        raise RefusalError("the message cannot be answered") from None


def _membership(context: Context) -> tuple[Identity | None, Roster | None]:
    """Return who this client is and with whom it takes part, as its own node config says."""
    path, directory = (context.node_config.get(key) for key in (ROSTER, STATE_DIR))
    if not path:
        return None, None
    if not directory:
        raise IdentityError(
            f"{ROSTER} needs {STATE_DIR} in the node config, with the client's key."
        )
    identity, roster = Identity.load(Path(str(directory))), Roster.load(Path(str(path)))
    if not roster.lists(identity):
        raise IdentityError(f"{path} does not list the key of '{identity.name}' in {directory}.")
    return identity, roster


def _check_terms(content: RecordDict, client: SecureClient, request: dict[str, Any]) -> None:
    """Refuse to train another model, or in another way, than the keys of the round are for."""
    terms = client.terms
    told = (terms.model, terms.config) if terms else (b"", b"")
    found = model_digest(content), config_digest(content, request.get(REPORT) is True)
    require(told == found, "the model or the config is not the one that this round is about")


def _keep(context: Context, client: SecureClient) -> None:
    context.state[RECORD] = ConfigRecord({"state": client.state()})


def _contribution(content: RecordDict) -> tuple[list[Any], list[int]]:
    """Return the arrays to be summed and the clients of a host, and refuse all that is more."""
    records = dict(content.array_records)
    extra = records.pop(PARTS_RECORD, ArrayRecord())
    require(len(records) == 1, "the reply does not hold exactly one ArrayRecord")
    label = content.config_records.get(LABEL_RECORD, ConfigRecord())
    reported = [
        *(k for r in content.metric_records.values() for k in r if k != "num_examples"),
        *content.config_records.get("fitres.metrics", ()),
        *(k for k in label if k != HOSTED),
    ]
    too_much = f"a secure sum takes no metric or label, but {reported} is to be sent"
    require(not reported, too_much)
    hosted: Any = label.get(HOSTED, [])
    (record,) = records.values()
    arrays = [*decode_all(record).values(), *decode_all(extra).values()]
    arrays = [value for value in arrays if is_averaged(value.dtype)]
    return arrays, hosted if isinstance(hosted, list) else []
