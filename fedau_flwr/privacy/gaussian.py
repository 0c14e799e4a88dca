"""`GaussianPrivacy`: what a strategy needs to keep its sums differentially private."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..client.separation import Separation
from .budget import PrivacyBudget
from .clipping import AdaptiveNorm
from .noise import sum_std

if TYPE_CHECKING:
    from ..server.summation import Summation


class GaussianPrivacy:
    """Clipped contributions and Gaussian noise: ``FedAU(..., privacy=GaussianPrivacy(...))``.

    Parameters
    ----------
    norm : float | AdaptiveNorm
        Largest L2 norm of a contribution, that is of the *weighted* update.
    noise_multiplier : float
        Standard deviation of the noise on the sum, in units of the norm.
    budget : PrivacyBudget | None (default: None)
        The (ε, δ) that the training must keep; it stops before the round that would exceed it. One
        with a separation has clients take part at most once in so many rounds.

    Notes
    -----
    Under a secure sum the clients' shares of the noise are rounded to the grid. The ε of true
    Gaussian noise is taken for it, so a share below four steps of the grid is refused, by the
    constructor of the strategy as far as it can know and by every client.
    """

    def __init__(
        self,
        norm: float | AdaptiveNorm,
        noise_multiplier: float,
        *,
        budget: PrivacyBudget | None = None,
    ) -> None:
        self.adaptive = norm if isinstance(norm, AdaptiveNorm) else None
        self._norm = 0.0 if isinstance(norm, AdaptiveNorm) else norm
        self.noise_multiplier = noise_multiplier
        self.budget = budget
        self.separation = budget.separation if budget else Separation()
        sum_std(noise_multiplier, self.norm)
        self._multiplier = noise_multiplier
        if self.adaptive:
            self._multiplier = self.adaptive.contribution_multiplier(noise_multiplier)

    def __repr__(self) -> str:
        return f"GaussianPrivacy(norm={self.norm}, noise_multiplier={self.noise_multiplier})"

    @property
    def norm(self) -> float:
        """The norm of the running round."""
        return self.adaptive.norm if self.adaptive else self._norm

    @property
    def sum_std(self) -> float:
        """The noise on the sum of the contributions."""
        return sum_std(self._multiplier, self.norm)

    @property
    def bit_std(self) -> float | None:
        """The noise on the sum of the bits, None if the norm is fixed."""
        return self.adaptive.bit_noise if self.adaptive else None

    def around(self, summation: Summation) -> Summation:
        """Return the summation with this privacy around it."""
        from .private_sum import PrivateSum  # noqa: PLC0415 -- it needs this module

        return PrivateSum(summation, self)

    def rounds_left(self, wanted: int) -> int:
        """Return how many of the wanted rounds the budget has room for."""
        if self.budget is None:
            return wanted
        if wanted == 1:
            return int(self.budget.allows(self.noise_multiplier))
        return min(wanted, self.budget.rounds(self.noise_multiplier))

    def released(self, noisy_bits: float | None, clients: int, server_round: int) -> None:
        """Account for a sum that was released, and adapt the norm."""
        if self.budget is not None:
            self.budget.charge(self.noise_multiplier, server_round)
        if self.adaptive is not None and noisy_bits is not None:
            self.adaptive = self.adaptive.update(noisy_bits, clients)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {"norm": self.norm, "budget": self.budget.state() if self.budget else {}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        if self.adaptive is not None:
            self.adaptive = replace(self.adaptive, norm=state["norm"])
        if self.budget is not None:
            self.budget.restore(state["budget"])
