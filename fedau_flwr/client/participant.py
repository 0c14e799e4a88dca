"""One client's side of the participation protocol.

A client's state is its history up to, not including, its pending round: the last one it
sent something for. When it is asked again, the server's word on its last counted round
settles the pending one, and every round it was not asked for is an absence.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ..weight_state import StateError, WeightState
from ..weighting import Weighting
from ..wire.requests import COUNTED, Refusal, Request
from .contribution import check_finite, difference, local_update, scaled
from .preparation import Preparation
from .store import Arrays, Store, Version

log = logging.getLogger("flwr.fedau")


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """A client's turn in one round, with everything before this round settled.

    Parameters
    ----------
    request : Request
        What the server said.
    state : WeightState
        The history before this round; its weight is the one to use now.
    memory : Arrays | None
        The client's `y`, or None if it has sent nothing yet or the method has none.
    kept : tuple[Version, ...]
        Versions that a resumed server may still go back to.
    """

    request: Request
    state: WeightState
    memory: Arrays | None
    kept: tuple[Version, ...]


class Participant:
    """A client that keeps its participation state in `store`.

    Parameters
    ----------
    store : Store
        Where the state lives between rounds.
    weighting : Weighting
        How a history becomes a weight.
    """

    def __init__(self, store: Store, weighting: Weighting) -> None:
        self.store = store
        self.weighting = weighting

    def contribute(
        self,
        request: Request,
        model: Arrays,
        train: Callable[[], Arrays],
        *,
        importance: float = 1.0,
        group: str | None = None,
        preparation: Preparation | None = None,
    ) -> Arrays:
        """Train, and return what this client adds to the sum; its state is stored by then."""
        with self.turn(request) as turn:
            update = local_update(model, train())
            if request.memory:
                contribution = difference(scaled(update, importance), turn.memory)
            else:
                weight = turn.state.weight if group is None else request.groups[group]
                contribution = scaled(update, importance * weight)
            check_finite(contribution)
            if preparation is not None:
                contribution = preparation.apply(contribution, request)
            self.finish(turn, contribution)
        return contribution

    @contextmanager
    def turn(self, request: Request) -> Iterator[Turn]:
        """Settle what came before `request.round`; `finish` belongs inside of the block."""
        with self.store.locked(request.training):
            versions = self.store.load(request.training)
            try:
                for version in versions:
                    self.weighting.check(version.state)
            except StateError as error:
                raise Refusal(
                    f"{error} The stored state does not fit {self.weighting!r}: use the weighting "
                    "that the training began with, or remove the state."
                ) from None
            yield settle(versions, request, self.weighting)

    def finish(self, turn: Turn, sent: Arrays) -> None:
        """Store that `sent` is on its way; call it before the reply leaves."""
        request = turn.request
        pending = Version(
            request.round,
            request.attempt,
            request.client,
            turn.state,
            memory=(turn.memory or {}) if request.memory else None,
            sent=sent if request.memory else None,
        )
        self.store.save(request.training, [*turn.kept, pending])


def settle(versions: Sequence[Version], request: Request, weighting: Weighting) -> Turn:
    """Bring a client's state up to the round that it is asked for."""
    valid = [version for version in versions if _still_holds(version, request)]
    last = valid[-1] if valid else None
    if last is not None and last.attempt == request.attempt and request.round <= last.round:
        shared = (
            f", under the name {last.client} instead of {request.client}: if these are two "
            "clients, give each its own fedau-state-dir or its own partition-id"
        )
        raise Refusal(
            f"Stale delivery: round {request.round} was asked for, but this client has already "
            f"answered round {last.round} of attempt {request.attempt}"
            f"{shared if last.client != request.client else ''}."
        )
    state = last.state if last else weighting.initial()
    memory = last.memory if last else None
    pending = last.round if last else 0
    counted = request.counted
    if counted is None or (counted == 0 and last is not None and last.client != request.client):
        # The server cannot know what it counted under another name: the client's own record
        # decides.
        counted = pending
    if counted > pending:
        if request.memory:
            raise Refusal(
                f"{COUNTED} is {counted}, but this client's own record ends at {pending}: what "
                "it sent is still in the server's sum, so without it the client cannot take part "
                "in this training any more."
            )
        log.warning(
            "The server counted this client in round %d, but its own record ends at round %d; the "
            "rounds between them are taken as absence.",
            counted,
            pending,
        )
    if counted and counted >= pending:
        state = weighting.skip(state, counted - 1 - state.round)
        state = weighting.advance(state, True)
        if last is not None and last.sent is not None:
            memory = _added(last.memory or {}, last.sent)
    state = weighting.skip(state, request.round - 1 - state.round)
    return Turn(request, state, memory, _keep(valid, request.safe))


def _still_holds(version: Version, request: Request) -> bool:
    """Return whether the model still contains what led to `version`.

    It does not if a later attempt started before it, or if its attempt died without a
    checkpoint and nothing was resumed from it.
    """
    if version.attempt > request.attempt:
        raise Refusal(
            f"Stale delivery: attempt {request.attempt} asked for round {request.round}, but this "
            f"client has already answered attempt {version.attempt}."
        )
    numbers = [number for number, _ in request.attempts]
    return version.attempt in numbers and all(
        version.round < start for number, start in request.attempts if number > version.attempt
    )


def _keep(versions: Sequence[Version], safe: int | None) -> tuple[Version, ...]:
    """Return the versions after the last checkpoint and the newest one that is not."""
    if safe is None:
        return ()
    before = [version for version in versions if version.round <= safe]
    after = [version for version in versions if version.round > safe]
    return (*before[-1:], *after)


def _added(memory: Arrays, sent: Arrays) -> Arrays:
    return {name: memory[name] + sent[name] if name in memory else sent[name] for name in sent}
