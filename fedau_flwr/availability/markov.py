"""Participation as a chain of two states per client."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import check
from .chain import Chain
from .draws import Draws
from .process import as_probabilities


class Markov(Chain):
    """A client that is there tends to stay, and one that is away tends to stay away.

    ``P(off→on) = min(max_activation, p/(1-p))`` and ``P(on→off) = P(off→on)·(1/p - 1)``, which is
    then at most 1, so that ``p`` is stationary. The state of round 0 is drawn from ``p``.

    Parameters
    ----------
    p : array of N numbers in (0, 1]
        Stationary participation probabilities.
    seed : int
        Seed of the path.
    max_activation : float
        Upper bound of P(off→on), in (0, 1].
    """

    def __init__(self, p: ArrayLike, seed: int, max_activation: float = 0.05) -> None:
        self.p = as_probabilities(p)
        check_activation(max_activation)
        with np.errstate(divide="ignore"):  # p = 1 has infinite odds, which the minimum takes away
            self.activation = np.minimum(max_activation, self.p / (1 - self.p))
        self.deactivation = np.minimum(1.0, self.activation * (1 - self.p) / self.p)
        self._draws = Draws(seed, "markov")
        super().__init__(self._draws.uniforms(0, self.p.size) < self.p)

    @property
    def probability(self) -> NDArray[np.float64]:
        """Stationary probability of each client."""
        return self.p.copy()

    def _next(self, t: int, state: NDArray[np.bool_]) -> NDArray[np.bool_]:
        draws = self._draws.uniforms(t, self.clients)
        return np.where(state, draws >= self.deactivation, draws < self.activation)

    def _there(self, state: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return state.copy()

    def _packed(self, state: NDArray[np.bool_]) -> NDArray[np.uint8]:
        return np.packbits(state)

    def _unpacked(self, kept: NDArray[np.uint8]) -> NDArray[np.bool_]:
        return np.unpackbits(kept, count=self.clients).astype(np.bool_)


def check_activation(value: float) -> None:
    """Raise ValueError unless an upper bound of P(off→on) is in (0, 1]."""
    check("max_activation", value, 0 < value <= 1, "in (0, 1]")
