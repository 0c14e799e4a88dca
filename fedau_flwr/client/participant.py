"""One client's side of the participation protocol.

A client's state is its history up to, not including, its pending round: the last one it
sent something for. When it is asked again, the server's word on its last counted round
settles the pending one, and every round it was not asked for is an absence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from .._log import log
from ..arrays import Arrays, scaled
from ..statistics import without
from ..weight_state import StateError, WeightState
from ..weighting import Weighting
from ..wire.parts import UPDATE, Parts
from ..wire.requests import COUNTED, Refusal, Request
from .answered import Answers, model_digest
from .preparation import Preparation
from .separation import Separation
from .store import Store, Version, recall
from .transform import Memory, NextMemory, Transform, Turn, named_transform
from .update import check_finite, local_update, measured_change


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """A client's state with everything settled that came before the round it is asked for."""

    state: WeightState  # the history before this round; its weight is the one to use now
    counted: int  # the last round in which it was counted, as far as is known; 0 for none
    memory: Memory  # what its method has remembered
    kept: tuple[Version, ...]  # that a resumed server may still go back to


@dataclass(frozen=True, slots=True, eq=False)
class Participant:
    """A client that keeps its participation state in `store`."""

    store: Store
    weighting: Weighting
    transforms: tuple[type[Transform], ...] = ()  # beside those of this package

    def contribute(
        self,
        request: Request,
        model: Arrays,
        train: Callable[[Arrays], Arrays],
        *,
        importance: float = 1.0,
        group: str | None = None,
        preparation: Preparation | None = None,
        separation: Separation | None = None,
    ) -> Parts:
        """Train, and return what this client adds to the sum; its state is stored by then.

        `train` is given what training starts from, which is `model` under most methods.
        """
        transform = named_transform(request.transform, self.transforms)
        with self.store.locked(request.training):
            answers = self._answers(request, separation) if separation else None
            versions = self._load(request.training)
            settled = settle(versions, request, self.weighting, transform)
            weight = settled.state.weight if group is None else request.groups[group]
            turn = Turn(request.round, weight, settled.counted, settled.memory, model)
            start = transform.start(model, turn)
            trained = train(start)
            measured = measured_change(model, trained, request)
            update = without({UPDATE: local_update(start, trained)}, measured)[UPDATE]
            parts = transform.contribute(scaled(update, importance), turn)
            transform.check(parts)
            if measured:
                parts = {**parts, (first := transform.parts[0]): {**parts[first], **measured}}
            check_finite(parts)
            if preparation is not None:
                parts = preparation.apply(parts, request)
            if answers is not None:
                masked = preparation is not None and preparation.grid is not None
                answers = answers.added(request.round, model_digest(model) if masked else 0)
                self.store.record(request.training, answers)
            held: dict[str, Any] = {}
            if transform.remembers:
                recalled = parts if transform.recalled is None else transform.recalled
                sent = without({part: parts[part] for part in recalled}, measured)
                held = self._held(transform, settled.memory, sent)
            pending = Version(
                request.round,
                request.attempt,
                request.client,
                settled.state,
                weighting=repr(self.weighting),
                **held,
            )
            self.store.save(request.training, [*settled.kept, pending])
        return parts

    def _held(self, transform: Transform, memory: Memory, sent: Parts) -> dict[str, Any]:
        """Return what a version has of memories: what makes the next one, or that one."""
        if self.store.looks_ahead:
            return {"memory": memory, "next_memory": NextMemory(transform, memory, sent)}
        return {"memory": memory, "sent": sent}

    def _answers(self, request: Request, separation: Separation) -> Answers:
        """Return what was answered before, unless the client rests in this round."""
        answers = self.store.answers(request.training)
        if not self.store.durable:
            _warn_of_forgetting()
        separation.check(answers, request)
        try:
            separation.check_cutoff(self.weighting, warn=not answers.count)
        except ValueError as error:
            raise Refusal(str(error)) from None
        return answers

    def _load(self, training: str) -> list[Version]:
        versions = self.store.load(training)
        mine = repr(self.weighting)
        for version in versions:
            if version.weighting not in {None, mine}:
                raise Refusal(
                    f"The weighting is {mine}, but this training's state was made with "
                    f"{version.weighting}: use that one, or remove the state."
                )
        try:
            for version in versions:
                self.weighting.check(version.state)
        except StateError as error:
            raise Refusal(
                f"{error} The stored state does not fit {self.weighting!r}: use the weighting "
                "that the training began with, or remove the state."
            ) from None
        return versions


@cache
def _warn_of_forgetting() -> None:
    log.warning(
        "This client keeps its rounds apart, but forgets them when its process ends: outside of a "
        "simulation give it a directory, fedau-state-dir in the node config."
    )


def settle(
    versions: Sequence[Version],
    request: Request,
    weighting: Weighting,
    transform: Transform | None = None,
) -> Settled:
    """Bring a client's state up to the round that it is asked for."""
    valid = [version for version in versions if still_holds(version, request)]
    last = valid[-1] if valid else None
    if last is not None and last.attempt == request.attempt and request.round <= last.round:
        raise _stale(last, request)
    state = last.state if last else weighting.initial()
    pending = last.round if last else 0
    counted = request.counted
    if counted is None or (counted == 0 and last is not None and last.client != request.client):
        # The server cannot know what it counted under another name: the client's own record
        # decides.
        counted = pending
    if counted > pending:
        _check_record(counted, pending, transform)
    heard = bool(counted) and counted >= pending
    if heard:
        state = weighting.skip(state, counted - 1 - state.round)
        state = weighting.advance(state, True)
    state = weighting.skip(state, request.round - 1 - state.round)
    if transform is None or not heard:
        memory = recall(last.memory if last else None)
    else:
        memory = _remembered(transform, last) if counted == pending else {}
    return Settled(state, counted, memory, _keep(valid, request.safe))


def _remembered(transform: Transform, last: Version | None) -> Memory:
    """Return the memory after a pending round that was counted."""
    if last is None or last.memory is None:
        return {}
    if last.next_memory is not None:
        memory = recall(last.next_memory)
    else:
        memory = transform.remember(recall(last.memory), last.sent or {})
    return memory if last.received is None else transform.receive(memory, last.received)


def _stale(last: Version, request: Request) -> Refusal:
    shared = (
        f", under the name {last.client} instead of {request.client}: if these are two "
        "clients, give each its own fedau-state-dir or its own partition-id"
    )
    return Refusal(
        f"Stale delivery: round {request.round} was asked for, but this client has already "
        f"answered round {last.round} of attempt {request.attempt}"
        f"{shared if last.client != request.client else ''}."
    )


def _check_record(counted: int, pending: int, transform: Transform | None) -> None:
    """Warn about a record that ends before what the server counted, or refuse to go on."""
    if transform is not None and transform.remembers and not transform.may_forget:
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


def still_holds(version: Version, request: Request) -> bool:
    """Return whether the model still contains what led to `version`.

    It does not if a later attempt started before it, or if its attempt died without a
    checkpoint and nothing was resumed from it.
    """
    if version.attempt > request.attempt:
        raise Refusal(
            f"Stale delivery: attempt {request.attempt} asked for round {request.round}, but this "
            f"client has already answered attempt {version.attempt}."
        )
    return version.attempt in dict(request.attempts) and all(
        version.round < start for number, start in request.attempts if number > version.attempt
    )


def _keep(versions: Sequence[Version], safe: int | None) -> tuple[Version, ...]:
    """Return the versions after the last checkpoint and the newest one that is not."""
    if safe is None:
        return ()
    before = [version for version in versions if version.round <= safe]
    after = [version for version in versions if version.round > safe]
    return (*before[-1:], *after)
