"""The privacy that a client gives away, by its own book: the server need not be believed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from typing import IO, Self

from flwr.app import Context

from ..files import open_handle
from ..privacy.gdp import epsilon_of
from ..wire.requests import Refusal
from .policy import EPSILON, NodePolicy
from .state_directory import BUDGET, SPENT, StateDirectory, state_directory


@dataclass(frozen=True, slots=True)
class OwnBudget:
    """An (ε, δ) over all masked vectors that leave a client; without a limit it allows them all.

    The noise that counts is what a sum has beside the shares that colluding clients know, as it
    was promised to this client and as it makes its own share. A vector is charged before it leaves,
    whether or not a sum comes of it.
    """

    directory: StateDirectory | None
    policy: NodePolicy

    @classmethod
    def of(cls, context: Context, policy: NodePolicy) -> Self:
        """Return the budget that the node config sets."""
        return cls(state_directory(context) if policy.epsilon else None, policy)

    def check(self, noise_multiplier: float) -> None:
        """Refuse a round that would exceed the budget."""
        if self.directory is not None:
            with self._book(self.directory) as book:
                self._check(book, noise_multiplier)

    def charge(self, noise_multiplier: float) -> None:
        """Account for a vector that is about to leave, or refuse to send it."""
        if self.directory is not None:
            with self._book(self.directory) as book:
                self._check(book, noise_multiplier)
                book.write(f"{noise_multiplier!r}\n".encode())
                book.flush()
                os.fsync(book.fileno())

    @contextmanager
    def _book(self, directory: StateDirectory) -> Iterator[IO[bytes]]:
        """Open the book, a noise multiplier per line, which no other process has at that time."""
        with directory.locked(BUDGET):
            try:
                handle = open_handle(directory.folder(BUDGET) / SPENT, os.O_RDWR | os.O_APPEND)
                with os.fdopen(handle, "a+b") as book:
                    yield book
            except OSError as error:
                raise Refusal(f"The book of spent privacy cannot be used: {error}") from None

    def _check(self, book: IO[bytes], noise_multiplier: float) -> None:
        book.seek(0)
        try:
            # Gaussian releases compose to one of μ² = Σ 1/z².
            spent = sum(float(line) ** -2 for line in book)
        except (ValueError, ZeroDivisionError):
            raise Refusal(
                f"The book of spent privacy, {SPENT}, has to hold a noise multiplier per line."
            ) from None
        limit, delta = self.policy.epsilon, self.policy.delta
        # Less is none, and has no finite ε.
        fits = noise_multiplier > 1e-6 and (
            epsilon_of(delta, sqrt(spent + noise_multiplier**-2)) <= limit
        )
        if not fits:
            so_far = epsilon_of(delta, sqrt(spent)) if spent else 0.0
            raise Refusal(
                f"{EPSILON} is {limit:g} on this node, of which {so_far:.4g} is spent: there is no "
                f"room for a noise multiplier of {noise_multiplier:.4g}."
            )
