"""Gaussian noise for a guarantee over a whole run: independent, or correlated over rounds."""

from dataclasses import dataclass
from pathlib import Path

from fedau_flwr import GaussianPrivacy, MatrixPrivacy, PrivacyBudget
from fedau_flwr.privacy.gdp import noise_multiplier, participations
from simulations.privacy.base import Privacy
from simulations.registry import parameter


@dataclass(frozen=True)
class Noise(Privacy):
    """What both kinds of noise have in common."""

    epsilon: float = parameter("above 0", lambda v: v > 0, 8.0)
    delta: float = parameter("strictly between 0 and 1", lambda v: 0 < v < 1, 1e-5)
    norm: float = parameter("above 0", lambda v: v > 0, 1.0)
    separation: int = parameter("at least 1", lambda v: v >= 1, 1)
    participations: int = parameter("at least 1, or 0 for no limit", lambda v: v >= 0, 0)


@dataclass(frozen=True)
class IndependentNoise(Noise):
    """Fresh noise in each round (GaussianPrivacy), as much as the guarantee takes."""

    name = "gaussian"
    place = 2

    def settings(self, rounds: int, directory: Path | None) -> GaussianPrivacy:
        """Return the noise for so many rounds, and a budget that remembers across a crash."""
        journal, apart = directory / "spent.txt" if directory else None, self.apart
        budget = PrivacyBudget(
            self.epsilon, self.delta, journal=journal, separation=apart.rounds,
            participations=apart.limit,
        )  # fmt: skip
        releases = participations(rounds, apart.rounds, apart.limit)
        multiplier = noise_multiplier(self.epsilon, self.delta, releases)
        return GaussianPrivacy(self.norm, multiplier, budget=budget)


@dataclass(frozen=True)
class CorrelatedNoise(Noise):
    """Noise of which later rounds take back some of the earlier (MatrixPrivacy); bands 0: auto."""

    bands: int = parameter("at least 1, or 0 for auto", lambda v: v >= 0, 0)

    name = "matrix"
    place = 3
    on_secure_sums = False
    keeps_releases = True

    def settings(self, rounds: int, directory: Path | None) -> MatrixPrivacy:
        """Return the noise for so many rounds, with its releases in the run's directory."""
        return MatrixPrivacy(
            norm=self.norm,
            epsilon=self.epsilon,
            delta=self.delta,
            rounds=rounds,
            separation=self.separation,
            participations=self.apart.limit,
            bands=self.bands or "auto",
            releases=directory / "releases" if directory else None,
        )
