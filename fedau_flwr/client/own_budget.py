"""The privacy that a client gives away, by its own book: the server need not be believed."""

from __future__ import annotations

import os
from dataclasses import dataclass

from flwr.app import Context

from ..files import open_handle
from ..privacy.budget import PrivacyBudget
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
    def of(cls, context: Context, policy: NodePolicy) -> OwnBudget:
        """Return the budget that the node config sets."""
        return cls(state_directory(context) if policy.epsilon else None, policy)

    def check(self, noise_multiplier: float) -> None:
        """Refuse a round that would exceed the budget."""
        if self.directory is not None:
            with self.directory.locked(BUDGET):
                self._checked(self.directory, noise_multiplier)

    def charge(self, noise_multiplier: float) -> None:
        """Account for a vector that is about to leave, or refuse to send it."""
        if self.directory is not None:
            with self.directory.locked(BUDGET):
                self._checked(self.directory, noise_multiplier).charge(noise_multiplier)

    def _checked(self, directory: StateDirectory, noise_multiplier: float) -> PrivacyBudget:
        path = directory.folder(BUDGET) / SPENT
        try:
            os.close(open_handle(path, os.O_RDWR))
            budget = PrivacyBudget(self.policy.epsilon, self.policy.delta, journal=path)
        except (OSError, ValueError) as error:
            raise Refusal(f"The book of spent privacy cannot be used: {error}") from None
        if not noise_multiplier or not budget.allows(noise_multiplier):
            raise Refusal(
                f"{EPSILON} is {self.policy.epsilon:g} on this node, of which {budget.spent:.4g} "
                f"is spent: there is no room for a noise multiplier of {noise_multiplier:.4g}."
            )
        return budget
