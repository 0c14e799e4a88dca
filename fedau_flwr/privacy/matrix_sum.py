"""`MatrixSum`: a plain sum whose noise is correlated over rounds, and released once."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from flwr.app import Message

from .._log import log
from ..client.preparation import Preparation
from ..server.summation import Round, Sum, Summation
from .noise_stream import NoiseStream, guarded_std
from .releases import Release, Releases, flattened, nested
from .spent import log_spent

if TYPE_CHECKING:
    from .matrix import MatrixPrivacy


class MatrixSum(Summation):
    """Has contributions clipped, and adds the noise of `MatrixPrivacy` to their sum.

    Each noisy sum is on the disk before it is handed on. Rounds that are there already, because the
    training went on from an older checkpoint, are taken from there, and nobody is asked.
    """

    def __init__(self, summation: Summation, privacy: MatrixPrivacy) -> None:
        self.inner = summation
        self.inner.norm = privacy.norm
        self.privacy = privacy
        self.scalars = summation.scalars
        self.separation = privacy.separation
        self.round = 0
        self._stream: NoiseStream | None = None
        self._releases: Releases | None = None
        self._saved: Mapping[str, Any] | None = None
        self._warned = False

    def __repr__(self) -> str:
        return f"MatrixSum({self.inner!r}, {self.privacy!r})"

    def rounds_left(self, wanted: int) -> int:
        """Return how many of the wanted rounds are left of T."""
        return min(wanted, self.privacy.rounds - self.round)

    def check_rounds(self, rounds: int) -> None:
        """Refuse a training of more rounds than T."""
        if rounds > self.privacy.rounds:
            raise ValueError(
                f"the number of rounds is {rounds}, but must be at most {self.privacy.rounds}, for "
                "which the noise of MatrixPrivacy was planned when the training started."
            )

    def last_release(self) -> tuple[int, list[tuple[int, int]]]:
        """Return the last round whose sum is on the disk, and the attempts that led to it."""
        if self._releases is None or not self._releases.last:
            return 0, []
        return self._releases.last, self._releases.read(self._releases.last).attempts

    def asked_before(self, server_round: int) -> list[int] | None:
        """Return who was asked in a round whose sum is on the disk, None if it is not."""
        if self._releases is None or server_round > self._releases.last:
            return None
        return self._releases.read(server_round).asked

    def open(self, this: Round, messages: list[Message]) -> list[Message]:
        """Say in the train messages how contributions are clipped."""
        self._begin(this)
        preparation = Preparation(norm=self.privacy.norm)
        for message in messages:
            preparation.announce(message.content)
        return self.inner.open(this, messages)

    def _begin(self, this: Round) -> NoiseStream:
        """Return the noise; the first round of a training, or of a process, makes it."""
        directory = self.privacy.releases
        if self._releases is None and directory is not None:
            self._releases = Releases(directory, self.privacy.training)
            self._releases.begin()
        if self._stream is None:
            size = sum(prod(shape) for _, _, shape, _ in this.layout.arrays())
            if self._saved is None:
                self.privacy.fit(size)
            std = guarded_std(self.privacy.noise_multiplier, self.privacy.norm, size)
            self._stream = NoiseStream(self.privacy.plan.matrix, std)
            if self._saved is not None:
                self._stream.load_state_dict(self._saved)
        return self._stream

    def close(self, this: Round, replies: list[Message]) -> Sum:
        """Add up, with noise, once: what was released before is released again as it was."""
        stream = self._begin(this)
        if self._releases is not None and this.number <= self._releases.last:
            release = self._releases.read(this.number)
            stream.repeat(release.noise)
            result = Sum(parts=release.parts, clients=release.clients, groups=release.groups)
            log.info("Round %d was released before and is taken from the disk.", this.number)
        else:
            result = self.inner.close(this, replies)
            if result.parts is None:
                stream.repeat(None)
            else:
                result.parts = nested(stream.release(flattened(result.parts)))
            self._write(this, result, stream)
        self.round, result.released = this.number, self._releases is not None
        spent = self.privacy.spent(self.round)
        result.spent = log_spent(spent, self.privacy.epsilon, self.privacy.delta)
        return result

    def _write(self, this: Round, result: Sum, stream: NoiseStream) -> None:
        if self._releases is not None:
            release = Release(
                asked=[client for here in this.asked.values() for client in here],
                attempts=list(this.attempts),
                clients=result.clients,
                groups=result.groups,
                parts=result.parts,
                noise=stream.noise if result.parts else None,
            )
            self._releases.write(this.number, release)

    def checkpointed(self, server_round: int) -> None:
        """Remove the releases that no checkpoint needs."""
        if self._releases is not None:
            self._releases.prune(server_round)
        elif self.privacy.releases is None and not self._warned:
            self._warned = True
            log.warning(
                "This training keeps checkpoints, but cannot be resumed from them: give "
                "MatrixPrivacy a directory, releases=..., so that no sum is released twice."
            )

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs; its noise is for the server alone."""
        noise = self._stream.state_dict() if self._stream else self._saved
        return {
            **self.inner.state_dict(),
            "round": self.round,
            "noise": noise or {"round": 0, "memory": None},
            "privacy": self.privacy.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, and from what was released after it."""
        if "privacy" not in state or "noise" not in state:
            raise ValueError(
                "privacy is a MatrixPrivacy, but must be what the training that is resumed had: "
                "correlated noise is planned for the whole of it."
            )
        self.inner.load_state_dict(state)
        self.privacy.load_state_dict(state["privacy"])
        self.round, self._saved, self._stream = state["round"], state["noise"], None
        if self.privacy.releases is not None:
            self._releases = Releases(self.privacy.releases, self.privacy.training)
            self._releases.resume(self.round)
