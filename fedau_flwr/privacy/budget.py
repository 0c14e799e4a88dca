"""How much privacy a training has spent, and when it must stop.

The guarantee is per client: (ε, δ) bounds what anyone who sees all models can learn about whether
one client's contributions were in the sums or were zero.

Nothing is gained from "sampling" here. Amplification by sampling needs participants that are drawn
at random by someone who keeps the draw secret. In this package clients come and go by themselves:
who took part is known to the server, and no probability is known to anyone. Every round is
therefore charged in full, for a client that takes part in all of them.
"""

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from math import sqrt
from pathlib import Path
from typing import Any

from flwr import serverapp

from .clipping import check_positive
from .gdp import epsilon_of


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

    Examples
    --------
    ``if not budget.allows(z): stop`` before a round, ``budget.charge(z)`` once its sum is released.
    """

    def __init__(self, epsilon: float, delta: float, *, journal: Path | None = None) -> None:
        check_positive("epsilon", epsilon)
        if not 0 < delta < 1:
            raise ValueError(f"delta={delta} must be strictly between 0 and 1.")
        self.epsilon = epsilon
        self.delta = delta
        self._journal = journal
        self._rounds: Counter[float] = self._written()

    @property
    def spent(self) -> float:
        """The ε of the rounds charged so far, exactly."""
        return self._epsilon(self._rounds)

    @property
    def spent_renyi(self) -> float:
        """The bound on it by Flower's Rényi accountant, which needs the extra ``privacy``."""
        accountant = self._accountant()
        for noise, count in self._rounds.items():
            event = serverapp.GaussianPrivacyEvent(
                noise_multiplier=noise, sample_size=1, population_size=1
            )
            accountant.compose(event, count)
        return float(accountant.get_epsilon(self.delta)) if self._rounds else 0.0

    def allows(self, noise_multiplier: float) -> bool:
        """Say whether one more round keeps within the budget."""
        return self._allows(noise_multiplier, 1)

    def charge(self, noise_multiplier: float) -> None:
        """Account for one sum that is about to be released."""
        if self._journal is not None:
            self._journal.parent.mkdir(parents=True, exist_ok=True)
            with self._journal.open("a", encoding="ascii") as file:
                file.write(f"{noise_multiplier!r}\n")
                file.flush()
                os.fsync(file.fileno())
        self._rounds[noise_multiplier] += 1

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
        return {repr(noise): count for noise, count in self._rounds.items()}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on from a checkpoint, and from what the journal has beyond it."""
        saved = Counter({float(noise): count for noise, count in state.items()})
        self._rounds = saved | self._written()

    def _written(self) -> Counter[float]:
        """Return the rounds in the journal."""
        if self._journal is None or not self._journal.exists():
            return Counter()
        lines = self._journal.read_text(encoding="ascii", errors="replace").split()
        try:
            return Counter(float(line) for line in lines)
        except ValueError:
            raise ValueError(
                f"journal is {str(self._journal)!r}, but must hold a noise multiplier per line."
            ) from None

    def _allows(self, noise_multiplier: float, rounds: int) -> bool:
        return self._epsilon(self._rounds + Counter({noise_multiplier: rounds})) <= self.epsilon

    def _epsilon(self, rounds: Mapping[float, int]) -> float:
        # Gaussian releases compose to one of μ² = Σ 1/z².
        mu = sqrt(sum(count / noise**2 for noise, count in rounds.items()))
        return epsilon_of(self.delta, mu) if mu else 0.0

    def _accountant(self) -> Any:
        config = serverapp.PrivacyConfig(
            target_delta=self.delta,
            population_size=1,
            neighboring_relation=serverapp.NeighboringRelation.ADD_OR_REMOVE_ONE,
            sampling_method=serverapp.SamplingMethod.NO_AMPLIFICATION,
        )
        try:
            return serverapp.RdpAccountant(config)
        except ImportError:
            raise ImportError(
                "Flower's accountant needs the extra 'privacy': pip install 'fedau-flwr[privacy]'."
            ) from None
