"""`PrivateSum`: differential privacy as a wrapper around any summation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import sqrt
from typing import TYPE_CHECKING, Any

from flwr.app import Message

from .._log import log
from ..client.preparation import WITHIN, Preparation
from ..server.summation import Round, Sum, Summation
from ..wire.parts import SCALAR, Parts
from .gdp import epsilon_of
from .noise_stream import NoiseStream, guarded_std
from .spent import log_spent

if TYPE_CHECKING:
    from .gaussian import GaussianPrivacy


class OutsidersView:
    """Accounts for sums as outsiders see them, who know the models and no share of split noise.

    Each of n clients adds noise of variance ``σ²/(s - c)``, s being the fewest whose sum it helps
    to unmask and c how many may know their own share. The sum of n ≥ s has at least
    ``σ² n/(n - c)``, of which c participants know their part: to them it is the promised σ².
    """

    def __init__(self) -> None:
        self._rounds: Counter[float] = Counter()

    def charge(self, noise_multiplier: float, clients: int, colluding: int) -> None:
        """Account for a released sum over `clients` clients."""
        surplus = clients / (clients - colluding) if clients > colluding else 1.0
        self._rounds[noise_multiplier * sqrt(surplus)] += 1

    def epsilon(self, delta: float) -> float:
        """Return the ε of the sums so far."""
        mu = sqrt(sum(count / noise**2 for noise, count in self._rounds.items()))
        return epsilon_of(delta, mu) if mu else 0.0

    def state(self) -> dict[str, int]:
        """Return the sums so far by noise multiplier, for a checkpoint."""
        return {repr(noise): count for noise, count in self._rounds.items()}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on from a checkpoint."""
        self._rounds = Counter({float(noise): count for noise, count in state.items()})


class PrivateSum(Summation):
    """Has contributions clipped, and puts noise on their sum.

    Over a plain sum the server adds the noise; over a secure one the clients do, each a share.
    """

    def __init__(self, summation: Summation, privacy: GaussianPrivacy) -> None:
        summation.check_noise(privacy.norm, privacy.sum_std, privacy.bit_std)
        self.inner = summation
        self.privacy = privacy
        self.outside = OutsidersView()
        self.secure = summation.secure
        self.separation = privacy.separation
        self.scalars = (*summation.scalars, *((WITHIN,) if privacy.adaptive else ()))

    def __repr__(self) -> str:
        return f"PrivateSum({self.inner!r}, {self.privacy!r})"

    def rounds_left(self, wanted: int) -> int:
        """Return how many of the wanted rounds the budget has room for."""
        return self.privacy.rounds_left(self.inner.rounds_left(wanted))

    def open(self, this: Round, messages: list[Message]) -> list[Message]:
        """Say in the train messages how contributions are clipped, and with how much noise."""
        preparation = Preparation(
            norm=self.privacy.norm, noise_std=self.privacy.sum_std, bit_std=self.privacy.bit_std
        )
        self.inner.norm = self.privacy.norm
        for message in messages:
            preparation.announce(message.content)
        chosen = self.inner.open(this, messages)
        if chosen and self.privacy.adaptive is not None:
            # It is what the grid of a secure sum can hold in this round.
            config = next(iter(chosen[0].content.config_records.values()))
            norm = Preparation.from_config(config).norm or self.privacy.norm
            self.privacy.adaptive = replace(self.privacy.adaptive, norm=norm)
        return chosen

    def close(self, this: Round, replies: list[Message]) -> Sum:
        """Add up, with noise; account for it before anybody sees the sum."""
        result = self.inner.close(this, replies)
        if result.parts is None:
            if result.exposed:
                # Whoever has masked vectors may have their sum, whatever we see of it.
                self.privacy.released(None, 0, this.number)
            elif self.privacy.budget is not None:
                self.privacy.budget.pass_by(this.number)
            result.spent = self.privacy.budget.report() if self.privacy.budget else {}
            return result
        if not self.secure:
            result.parts = self._noisy(result.parts)
        bits = result.parts.pop(WITHIN, None)
        noisy = None if bits is None else float(bits[SCALAR])
        self.privacy.released(noisy, len(result.clients), this.number)
        self.outside.charge(self.privacy.noise_multiplier, len(result.nodes), self.inner.colluding)
        if (budget := self.privacy.budget) is not None:
            result.spent = log_spent(budget.report(), budget.epsilon, budget.delta)
            if self.secure and (spent := self.spent()):
                log.info("Privacy: ε = %.4g to outsiders, %.4g to participants.", *spent)
        return result

    def spent(self) -> tuple[float, float] | None:
        """Return the ε so far to those who see the models only, and to participants as well.

        A participant knows its own share of split noise, and ``colluding`` of them theirs. None
        without a budget, whose δ it takes.
        """
        budget = self.privacy.budget
        if budget is None:
            return None
        # Counted round by round, which minimum separation can only make smaller.
        return min(self.outside.epsilon(budget.delta), budget.spent), budget.spent

    def metrics(self) -> dict[str, float]:
        """Return what the sum itself has to say."""
        return self.inner.metrics()

    def _noisy(self, parts: Parts) -> Parts:
        size = sum(value.size for arrays in parts.values() for value in arrays.values())
        std = guarded_std(self.privacy.sum_std / self.privacy.norm, self.privacy.norm, size)
        stds = {part: self.privacy.bit_std or std if part == WITHIN else std for part in parts}
        return {part: NoiseStream([1.0], stds[part]).release(parts[part]) for part in parts}

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {
            **self.inner.state_dict(),
            **self.privacy.state_dict(),
            "outside": self.outside.state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.inner.load_state_dict(state)
        self.privacy.load_state_dict(state)
        self.outside.restore(state.get("outside", {}))
