"""Participation that repeats itself, like devices that charge at night."""

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import check, check_count
from .draws import Draws
from .process import Process, as_probabilities

CyclicVariant = Literal["random-offset", "starts-inactive"]


class Cyclic(Process):
    """Client n is there for ``d = max(1, round(period·p[n]))`` consecutive rounds of every period.

    Parameters
    ----------
    p : array of N numbers in (0, 1]
        Participation probabilities.
    seed : int
        Seed of the offsets.
    period : int
        Rounds in a cycle.
    variant : str
        ``"random-offset"``: the first active stretch begins at a round that is uniform over the
        whole period, so the process is stationary. ``"starts-inactive"``: it begins uniformly at
        one of the first ``period - d`` rounds, so no stretch reaches over the end of a period:
        frequent clients come together in its middle, and hardly any at its ends.
    """

    def __init__(
        self, p: ArrayLike, seed: int, period: int = 100, variant: CyclicVariant = "random-offset"
    ) -> None:
        probabilities = as_probabilities(p)
        super().__init__(probabilities.size)
        self.period = check_count("period", period)
        self.cycle: int | NDArray[np.int64] = self.period
        self.active_rounds = np.maximum(1, np.rint(self.period * probabilities)).astype(np.int64)
        known = get_args(CyclicVariant)
        check("variant", variant, variant in known, " or ".join(map(repr, known)))
        away = np.maximum(1, self.period - self.active_rounds)
        choices = away if variant == "starts-inactive" else self.period
        uniforms = Draws(seed, "cyclic").uniforms(0, self.clients)
        self.first_active = np.floor(uniforms * choices).astype(np.int64)

    @property
    def probability(self) -> NDArray[np.float64]:
        """Share of a cycle for which each client is there: ``p`` in whole rounds."""
        return np.asarray(self.active_rounds / self.cycle, dtype=np.float64)

    def _active(self, t: int) -> NDArray[np.bool_]:
        return np.asarray((t - self.first_active) % self.cycle < self.active_rounds)
