"""How much privacy a training has spent, and when it must stop.

The guarantee is per client: (ε, δ) bounds what anyone who sees all models can learn about whether
one client's contributions were in the sums or were zero.

Nothing is gained from "sampling" here. Amplification by sampling needs participants that are drawn
at random by someone who keeps the draw secret. In this package clients come and go by themselves:
who took part is known to the server, and no probability is known to anyone. What does bound a
client's part is minimum separation, which clients keep: at most once in b rounds, at most k times.
A budget that knows b and k charges a client for that many sums; without them, for every round.
"""

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from math import sqrt
from pathlib import Path

from ..checks import check_delta, check_positive
from ..client.separation import Separation
from .gdp import epsilon_of, participations
from .spent import renyi_epsilon, spent_metrics

_NOW, _LAST = "now", "last"


class PrivacyBudget:
    """An (ε, δ) budget over Gaussian sums, by the exact formula (`fedau_flwr.privacy.gdp`).

    Parameters
    ----------
    epsilon, delta : float
        The guarantee that the whole training must keep.
    journal : Path | None (default: None)
        A file of this training's own, which gets a line before each sum is released. A checkpoint
        knows nothing of the rounds after it, whose models were seen all the same; with a journal a
        training that was interrupted remembers them.
    separation : int (default: 1)
        `b`: clients are told to take part at most once in so many rounds, and do so whatever the
        server asks. After t rounds one has been in at most ``ceil(t / b)`` sums.
    participations : int | None (default: None)
        The most rounds that a client takes part in at all.

    Examples
    --------
    ``if not budget.allows(z): stop`` before a round, ``budget.charge(z)`` once its sum is released.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        journal: Path | None = None,
        separation: int = 1,
        participations: int | None = None,
    ) -> None:
        check_positive("epsilon", epsilon)
        check_delta(delta)
        self.epsilon = epsilon
        self.delta = delta
        self.separation = Separation(separation, participations)
        self._journal = journal
        self._rounds: Counter[float]
        self._rounds, self._last = self._written()
        self._now = self._last

    @property
    def spent(self) -> float:
        """The ε of the rounds charged so far, exactly."""
        return self._epsilon(self._rounds, self._last)

    @property
    def spent_renyi(self) -> float:
        """The bound on it by Flower's Rényi accountant, which needs the extra ``privacy``."""
        return renyi_epsilon(self.delta, self._entered(self._rounds, self._last))

    def report(self) -> dict[str, float]:
        """Return the ε spent by name, for logs and metrics."""
        entered = self._entered(self._rounds, self._last)
        return spent_metrics(self.spent, self.delta, entered, limit=self.epsilon)

    def allows(self, noise_multiplier: float) -> bool:
        """Say whether one more round keeps within the budget."""
        return self._allows(noise_multiplier, 1)

    def charge(self, noise_multiplier: float, server_round: int | None = None) -> None:
        """Account for the sum of a round, the next one if it is not said, before it is released."""
        self.pass_by(self._now + 1 if server_round is None else server_round)
        if self._journal is not None:
            self._journal.parent.mkdir(parents=True, exist_ok=True)
            with self._journal.open("a", encoding="ascii") as file:
                file.write(f"{noise_multiplier!r}@{self._now}\n")
                file.flush()
                os.fsync(file.fileno())
        self._rounds[noise_multiplier] += 1
        self._last = max(self._last, self._now)

    def pass_by(self, server_round: int) -> None:
        """Note that a round goes by, also one without a sum: clients rest for rounds, not sums."""
        self._now = server_round

    def rounds(self, noise_multiplier: float) -> int:
        """Return how many more rounds the budget allows: the run stops before the next one."""
        most = 1
        while self._allows(noise_multiplier, most):
            most *= 2

        def exceeds(rounds: int) -> bool:
            return not self._allows(noise_multiplier, rounds)

        return bisect_left(range(1, most), True, key=exceeds)

    def state(self) -> dict[str, int]:
        """Return the rounds charged so far by noise multiplier, for a checkpoint."""
        charged = {repr(noise): count for noise, count in self._rounds.items()}
        return {**charged, _NOW: self._now, _LAST: self._last} if self.separation else charged

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on from a checkpoint, and from what the journal has beyond it."""
        charged = {noise: count for noise, count in state.items() if noise not in (_NOW, _LAST)}
        written, last = self._written()
        self._rounds = Counter({float(noise): count for noise, count in charged.items()}) | written
        self._last = max(last, state.get(_LAST, sum(charged.values())))
        self._now = state.get(_NOW, self._last)

    def _written(self) -> tuple[Counter[float], int]:
        """Return the rounds in the journal, and the last of them."""
        if self._journal is None or not self._journal.exists():
            return Counter(), 0
        lines = self._journal.read_text(encoding="ascii", errors="replace").split()
        try:
            # Version 0.1 wrote no numbers.
            numbered = (line if "@" in line else f"{line}@{n}" for n, line in enumerate(lines, 1))
            pairs = [line.split("@") for line in numbered]
            charged = Counter(float(noise) for noise, _ in pairs)
            return charged, max((int(number) for _, number in pairs), default=0)
        except ValueError:
            raise ValueError(
                f"journal is {str(self._journal)!r}, but must hold a noise multiplier per line."
            ) from None

    def _allows(self, noise_multiplier: float, rounds: int) -> bool:
        charged = self._rounds + Counter({noise_multiplier: rounds})
        return self._epsilon(charged, max(self._last, self._now + rounds)) <= self.epsilon

    def _epsilon(self, charged: Counter[float], last: int) -> float:
        # Gaussian releases compose to one of μ² = Σ 1/z².
        entered = self._entered(charged, last)
        mu = sqrt(sum(count / noise**2 for noise, count in entered.items()))
        return epsilon_of(self.delta, mu) if mu else 0.0

    def _entered(self, charged: Counter[float], last: int) -> dict[float, int]:
        """Return how many sums of which noise one client can be in: those of the least noise."""
        left = participations(last, self.separation.rounds, self.separation.limit) if last else 0
        entered = {}
        for noise in sorted(charged):
            entered[noise] = min(charged[noise], left)
            left -= entered[noise]
        return {noise: count for noise, count in entered.items() if count}
