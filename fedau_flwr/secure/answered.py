"""What a client has answered under a mask, which all of its processes and attempts see.

A client's state travels with Flower's `Context`, of which several processes can hold the same
copy; and a resumed server asks for a round again. Local training repeats itself, so two sums of
the same round over clients that differ in one give that one's update away. Hence two records, both
in the store of answered rounds:

- an exchange of a round is answered once in an attempt, and none before it afterwards;
- a round is answered once in a training without noise of the client's own, over all attempts.
"""

from ..client.store import Store
from .message import Exchange, RefusalError, RoundId, require

ENOUGH_NOISE = 0.5
"""The noise multiplier from which on a contribution has noise of its own to speak of, unless the
client has a minimum of its own: the server's word alone must not be enough to be asked again."""


def record_exchange(store: Store, current: RoundId, exchange: Exchange) -> None:
    """Record an answer before it leaves, or refuse since it or a later one has left."""
    place, attempt = list(Exchange).index(exchange), f"{current.run}.{current.attempt}"
    with store.locked(attempt):
        answers = store.answers(attempt)
        passed = answers.last > current.round or answers.has(current.round, place)
        again = f"the exchange '{exchange}' of round {current.round} was already answered"
        require(not passed, again)
        store.record(attempt, answers.added(current.round, place))


def check_round(store: Store, current: RoundId) -> None:
    """Refuse to begin a round that was answered without noise, in whatever attempt."""
    if store.answers(_without_noise(current)).near(current.round, 1):
        raise RefusalError(
            f"round {current.round} of this training was already answered under a mask; without "
            "noise of its own a contribution is not sent twice"
        )


def record_round(store: Store, current: RoundId) -> None:
    """Record a contribution without noise before it leaves; one round has one of them."""
    training = _without_noise(current)
    with store.locked(training):
        check_round(store, current)
        store.record(training, store.answers(training).added(current.round, 0))


def _without_noise(current: RoundId) -> str:
    # No training has a dot in its name.
    return f"{current.run}.masked"
