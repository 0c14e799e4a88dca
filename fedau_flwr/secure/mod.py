"""`SecureSumMod`: the client's side of a secure sum, as a Flower mod."""

from math import inf
from typing import Any

from flwr.app import ConfigRecord, Context, Error, Message, MessageType, RecordDict

from .. import _flower
from .._log import log
from ..checks import check
from ..client.apps import check_app
from ..client.delivery import bare_confirmation, is_delivery
from ..client.identity import answer_identity, asks_identity
from ..client.mod import CallNext
from ..client.own_budget import OwnBudget
from ..client.policy import NodePolicy, under_mask
from ..client.preparation import PREPARATION, Preparation
from ..client.state_directory import open_store, state_directory
from ..wire.records import encode
from ..wire.requests import Refusal
from .answered import ENOUGH_NOISE, check_round, record_exchange, record_round
from .app_reply import contribution_of, run_without_words
from .client import SecureClient
from .digests import RECORD, REPORT, VECTOR, check_terms, round_of
from .graph import Topology
from .membership import ROSTER, guarded, membership
from .message import Exchange, RefusalError, RoundId, require
from .payload import Payload


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
    colluding : int (default: 1)
        How many clients of its neighbourhood may know or tell their share of the noise; each
        knows its own. The client's share is enlarged so that the noise of the others alone is
        what was promised.
    topology : Topology (default: Topology())
        The fraction of clients that may collude with the server, and how many shares a secret
        takes: what this client has the server's choices meet.

    Notes
    -----
    With ``fedau-roster`` in the node config, the path of a roster (`fedau keys`), the client takes
    part only with clients that are in it and were told the same; its own key is in the directory
    that the node config names as ``fedau-state-dir``.

    The node config outranks all of it, the run config and what messages say: ``fedau-min-cohort``,
    ``fedau-min-noise-multiplier``, ``fedau-colluding`` as above, ``fedau-require-secure``,
    ``fedau-allow``, ``fedau-epsilon``; see `fedau_flwr.client.policy.NodePolicy`.

    A round is answered once without noise of its own, over all attempts of a training, as long as
    there is a ``fedau-state-dir``: a resumed server that repeats rounds goes on with those clients
    that had not answered them (see `fedau_flwr.secure.answered`).

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
        colluding: int = 1,
        topology: Topology | None = None,
    ) -> None:
        SecureClient(0, min_cohort=min_cohort)
        fine = 0 <= min_noise_multiplier < inf
        check("min_noise_multiplier", min_noise_multiplier, fine, "finite and not negative")
        rule = f"at least 0 and below min_cohort, {min_cohort}"
        check("colluding", colluding, 0 <= colluding < min_cohort, rule)
        self._min_cohort = min_cohort
        self._min_noise_multiplier = min_noise_multiplier
        self._colluding = colluding
        self._topology = topology

    def __call__(self, message: Message, context: Context, call_next: CallNext) -> Message:
        """Handle one message; all but train messages pass through, if the node's owner agrees."""
        kind = message.metadata.message_type
        try:
            policy = NodePolicy.of(context)
            check_app(policy)
            if asks_identity(message):
                policy.check_type(MessageType.QUERY)
                return answer_identity(message, context)
            if kind.split(".")[0] != MessageType.TRAIN:
                policy.check_type(kind)
                return run_without_words(message, context, call_next)
            if is_delivery(message):
                return bare_confirmation(message, run_without_words(message, context, call_next))
            return self._answer(message, context, call_next)
        except (RefusalError, Refusal) as refusal:
            words = str(refusal).rstrip(".")
            log.error("Refused a message of a secure sum: %s.", words)
            error = Error(_flower.ErrorCode.MOD_FAILED_PRECONDITION, f"refused: {words}")
            return Message(error, reply_to=message)

    def _answer(self, message: Message, context: Context, call_next: CallNext) -> Message:
        with guarded():
            secure = RECORD in message.content.config_records
            require(secure, "this client takes part in secure sums only")
            request: dict[str, Any] = {**message.content.config_records[RECORD]}
            client = self._client(context)
            exchange = request.get("exchange")
        if exchange == Exchange.MASKED:
            return self._masked(message, context, call_next, client, request)
        with guarded():
            if exchange == Exchange.SHARES:
                reply: dict[str, Any] = {**client.deal_shares(request)}
            elif exchange == Exchange.CONSISTENCY:
                reply = {**client.sign_survivors(request)}
            elif exchange == Exchange.UNMASK:
                reply = {**client.unmask(request)}
            else:  # also for what is no exchange at all, which it refuses
                reply = {**client.offer_keys(request)}
                check_round(open_store(context), RoundId.of(request, Exchange.KEYS))
                if not context.node_config.get(ROSTER):
                    log.info("No %s: the server is trusted to follow the protocol.", ROSTER)
            self._leave(context, client, request)
        return Message(RecordDict({RECORD: ConfigRecord(reply)}), reply_to=message)

    def _client(self, context: Context) -> SecureClient:
        identity, roster = membership(context)
        state = context.state.config_records.get(RECORD, ConfigRecord()).get("state")
        return SecureClient(
            context.node_id,
            min_cohort=max(self._min_cohort, NodePolicy.of(context).min_cohort),
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
        policy = NodePolicy.of(context)
        with guarded():
            client.accept_shares(request)
            check_terms(message.content, client.terms, request)
            del message.content[RECORD]
            current = RoundId.of(request, Exchange.MASKED)
            asked, preparation = self._share_noise(message.content, client, policy, current)
            if preparation.grid is None:
                raise RefusalError(f"the train message has no '{PREPARATION}' with a grid")
            budget = OwnBudget.of(context, policy)
            budget.check(asked.noise_multiplier)
            context.state.pop(RECORD, None)
        token = under_mask.set(True)
        try:
            reply = run_without_words(message, context, call_next)
        finally:
            under_mask.reset(token)
            _keep(context, client)
        if reply.has_error():
            return reply
        with guarded():
            arrays, hosted = contribution_of(reply.content)
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
            budget.charge(asked.noise_multiplier)
            if asked.noise_multiplier < (self._least_noise(policy) or ENOUGH_NOISE) * (1 - 1e-9):
                record_round(open_store(context), current)
            self._leave(context, client, request)
        content = RecordDict({RECORD: ConfigRecord({**fields, "hosted": hosted})})
        content[VECTOR] = encode({"masked": masked})
        return Message(content, reply_to=message)

    def _share_noise(
        self, content: RecordDict, client: SecureClient, policy: NodePolicy, current: RoundId
    ) -> tuple[Preparation, Preparation]:
        """Turn the noise that the sum must have into this client's share of it; return both.

        The client reckons with the fewest clients that it would help to unmask, and so need not
        believe the server in how many there are.
        """
        configs = list(content.config_records.values())
        # In a second one a decoy could promise the noise that the app's own config does not.
        require(len(configs) == 1, "the train message does not hold exactly one config")
        # A round under the name of another may have been answered.
        same = round_of(configs[0]) == current
        require(same, "the train message belongs to another round than its shares")
        asked = Preparation.from_config(configs[0])
        least = self._least_noise(policy)
        if asked.noise_multiplier < least * (1 - 1e-9):  # a quotient may be off by its last bit
            raise RefusalError(
                f"a noise multiplier of {asked.noise_multiplier:.6g} is below this client's "
                f"min_noise_multiplier={least}"
            )
        try:
            shared = asked.shared(
                client.least_survivors, max(self._colluding, policy.colluding, asked.colluding)
            )
            shared.check_grid()
        except ValueError as error:
            raise RefusalError(f"the contribution cannot be rounded: {error}") from None
        configs[0].update(shared.to_config())
        return asked, shared

    def _least_noise(self, policy: NodePolicy) -> float:
        return max(self._min_noise_multiplier, policy.min_noise_multiplier)

    def _leave(self, context: Context, client: SecureClient, request: dict[str, Any]) -> None:
        """Keep the state that belongs to an answer, and record the answer before it leaves."""
        if (directory := state_directory(context)) is not None:
            exchange = Exchange(request["exchange"])
            record_exchange(directory, RoundId.of(request, exchange), exchange)
        _keep(context, client)


def _keep(context: Context, client: SecureClient) -> None:
    context.state[RECORD] = ConfigRecord({"state": client.state()})
