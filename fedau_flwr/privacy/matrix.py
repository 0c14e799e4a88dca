"""`MatrixPrivacy`: differential privacy with noise that is correlated over the rounds."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._log import log
from ..checks import check, check_positive
from ..client.separation import Separation
from .blt import BufferedToeplitz
from .clipping import AdaptiveNorm
from .gdp import epsilon_of, mu_of
from .plan import NoisePlan, best_plan
from .spent import spent_metrics
from .toeplitz import square_root

if TYPE_CHECKING:
    from ..server.summation import Summation


class MatrixPrivacy:
    """Clipped contributions, and noise of which later rounds take back a part of the earlier.

    ``FedAU(..., privacy=MatrixPrivacy(norm=1.0, epsilon=8.0, delta=1e-5, rounds=2000,
    separation=50))``. With C a lower-triangular Toeplitz matrix the sums of all rounds get
    ``C⁻¹ z``, ``z ~ N(0, (norm · s / μ)²)``, where s is the sensitivity of C for clients that take
    part at most once in b rounds, and μ the GDP parameter of (ε, δ): what the model accumulates of
    it varies far less than with independent noise. The whole training is one Gaussian release.

    Parameters
    ----------
    norm : float
        Largest L2 norm of a contribution, that is of the *weighted* update, over all of its parts.
    epsilon, delta : float
        The guarantee per client, for the whole training.
    rounds : int
        T. It is fixed when the training starts, and no round beyond it is run.
    separation : int (default: 1)
        `b`: clients are told to take part at most once in so many rounds, and keep to it.
    participations : int | None (default: None)
        The most rounds that a client takes part in at all.
    bands : int | str (default: "auto")
        How many bands C has. "auto" takes what has the least mean square error of prefix sums:
        a few buffers (BLT), if they are optimised within seconds, or bands.
    releases : str | Path | None (default: None)
        A directory of this training's own for its noisy sums, without which it cannot be resumed:
        no sum is released twice. It takes 8 bytes per value and round since the last checkpoint
        (4 for the sum of a float32 model and 4 for its noise).
    memory_limit : float (default: 2**30)
        The most bytes that the noise's memory may take, in memory and in a checkpoint: 4 bytes per
        value and band but the first, or 8 per value and buffer. "auto" keeps within it.
    """

    def __init__(
        self,
        *,
        norm: float,
        epsilon: float,
        delta: float,
        rounds: int,
        separation: int = 1,
        participations: int | None = None,
        bands: int | Literal["auto"] = "auto",
        releases: str | Path | None = None,
        memory_limit: float = 2**30,
    ) -> None:
        if isinstance(norm, AdaptiveNorm):
            raise ValueError(
                "norm is an AdaptiveNorm, but must be a number: noise that is correlated over the "
                "rounds has to fit one norm. GaussianPrivacy takes an AdaptiveNorm."
            )
        check_positive("norm", norm)
        check_positive("memory_limit", memory_limit)
        check_positive("epsilon", epsilon)
        check("rounds", rounds, type(rounds) is int and rounds >= 1, "an integer >= 1")
        fine = bands == "auto" or (type(bands) is int and 1 <= bands <= rounds)
        check("bands", bands, fine, f"'auto' or from 1 to {rounds}")
        self.norm, self.epsilon, self.delta, self.rounds = norm, epsilon, delta, rounds
        self.separation = Separation(separation, participations)
        self.bands, self.memory_limit = bands, memory_limit
        self.releases = None if releases is None else Path(releases)
        self.training = uuid.uuid4().hex
        self._mu = mu_of(epsilon, delta)
        self.plan = self._chosen(None)

    def __repr__(self) -> str:
        return (
            f"MatrixPrivacy(norm={self.norm}, epsilon={self.epsilon}, delta={self.delta}, "
            f"rounds={self.rounds}, separation={self.separation.rounds}, {self.plan}, "
            f"noise multiplier {self.noise_multiplier:.4g})"
        )

    @property
    def noise_multiplier(self) -> float:
        """The standard deviation of z in units of the norm: ``s / μ``."""
        return self.plan.sensitivity() / self._mu

    def around(self, summation: Summation) -> Summation:
        """Return the summation with this privacy around it."""
        from .matrix_sum import MatrixSum  # noqa: PLC0415 -- it needs this module

        if summation.secure:
            raise ValueError(
                "privacy is a MatrixPrivacy, but must be a GaussianPrivacy with a secure sum: "
                "there the noise comes from the clients and cannot be correlated over rounds. "
                "PrivacyBudget(separation=...) brings separation and exact accounting to it."
            )
        return MatrixSum(summation, self)

    def fit(self, size: int) -> None:
        """Choose a plan that keeps within the memory limit for sums of `size` values."""
        if self.plan.bytes_per_value() * size > self.memory_limit:
            if self.bands != "auto":
                most = 1 + int(self.memory_limit // (4 * size))
                raise ValueError(
                    f"bands is {self.bands}, but must be at most {most} for a model of {size} "
                    f"values, or memory_limit above {self.memory_limit:g} bytes."
                )
            self.plan = self._chosen(self.memory_limit / size)
        log.info(
            f"Noise is correlated by {self.plan}: multiplier {self.noise_multiplier:.4g}, error of "
            f"prefix sums {self.plan.relative_error():.3g} of independent noise's; it remembers "
            f"{self.plan.bytes_per_value() * size / 1e6:.3g} MB, here and in each checkpoint, and "
            f"a release is {8 * size / 1e6:.3g} MB."
        )

    def _chosen(self, most_bytes: float | None) -> NoisePlan:
        if self.bands == "auto":
            return best_plan(self.rounds, self.separation, most_bytes=most_bytes)
        return NoisePlan(square_root(self.bands), self.rounds, self.separation)

    def spent(self, rounds: int) -> dict[str, float]:
        """Return the ε of the first `rounds` rounds, for logs and metrics."""
        if rounds == 0:
            return spent_metrics(0.0, self.delta, {}, limit=self.epsilon)
        mu = self.plan.sensitivity(rounds) / self.noise_multiplier
        # A sensitivity that is rounded up must not seem to exceed the target.
        epsilon = min(self.epsilon, epsilon_of(self.delta, mu))
        return spent_metrics(epsilon, self.delta, {1 / mu: 1}, limit=self.epsilon)

    def state_dict(self) -> dict[str, Any]:
        """Return settings and matrix, with which a resumed training has to go on."""
        matrix = self.plan.matrix
        kept = [matrix.scales, matrix.decays] if isinstance(matrix, BufferedToeplitz) else matrix
        return {**self._settings(), "training": self.training, "matrix": np.array(kept)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with the matrix of a checkpoint; other settings than then are refused."""
        for key, mine in self._settings().items():
            rule = f"{state.get(key)} as in the training that is resumed, which the noise is for"
            check(key, mine, state.get(key) == mine, rule)
        if self.releases is None:
            raise ValueError(
                "releases is None, but must be the directory of the training that is resumed: "
                "without it a sum could be released twice."
            )
        self.training = state["training"]
        kept = np.asarray(state["matrix"], np.float64)
        buffers = kept.ndim == 2
        matrix = BufferedToeplitz(*(tuple(row) for row in kept.tolist())) if buffers else kept
        self.plan = NoisePlan(matrix, self.rounds, self.separation)

    def _settings(self) -> dict[str, Any]:
        separation = {"separation": self.separation.rounds, "participations": self.separation.limit}
        names = ("norm", "epsilon", "delta", "rounds")
        return {**{name: getattr(self, name) for name in names}, **separation}
