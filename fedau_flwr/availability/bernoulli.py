"""Participation that is independent from round to round."""

from abc import abstractmethod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .draws import Draws
from .process import Process, as_probabilities


class Independent(Process):
    """Clients come independently of each other and of other rounds, with a probability per round.

    Every subclass compares the same numbers of a seed with its own probabilities, so two of them
    differ only where their probabilities do.
    """

    def __init__(self, p: ArrayLike, seed: int) -> None:
        self.p = as_probabilities(p)
        super().__init__(self.p.size)
        self._draws = Draws(seed, "independent")

    @abstractmethod
    def probability_at(self, t: int) -> NDArray[np.float64]:
        """Return each client's probability to be there in round ``t``."""

    def _active(self, t: int) -> NDArray[np.bool_]:
        return self._draws.uniforms(t, self.clients) < self.probability_at(t)


class Bernoulli(Independent):
    """Client n is there with probability ``p[n]`` in every round.

    Parameters
    ----------
    p : array of N numbers in (0, 1]
        Participation probabilities.
    seed : int
        Seed of the path.
    """

    @property
    def probability(self) -> NDArray[np.float64]:
        """Stationary probability of each client."""
        return self.p.copy()

    def probability_at(self, t: int) -> NDArray[np.float64]:
        """Return ``p``, whatever the round."""
        return self.p
