"""Participation as a chain of two states per client."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .draws import Draws
from .process import Process, as_probabilities, check

_MAX_SNAPSHOTS = 128


class Markov(Process):
    """A client that is there tends to stay, and one that is away tends to stay away.

    ``P(off→on) = min(max_activation, p/(1-p))`` and ``P(on→off) = P(off→on)·(1/p - 1)``, which is
    then at most 1, so that ``p`` is stationary. The state of round 0 is drawn from ``p``.

    A state needs the one before it, so states are kept at evenly spaced rounds, at most 128 of
    them, one bit per client: going forward costs one step per round, and going back at most one
    spacing (rounds reached / 64).

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
        super().__init__(self.p.size)
        check_activation(max_activation)
        with np.errstate(divide="ignore"):  # p = 1 has infinite odds, which the minimum takes away
            self.activation = np.minimum(max_activation, self.p / (1 - self.p))
        self.deactivation = np.minimum(1.0, self.activation * (1 - self.p) / self.p)
        self._draws = Draws(seed, "markov")
        first = self._draws.uniforms(0, self.clients) < self.p
        self._latest = (0, first)
        self._spacing = 1
        self._snapshots = [np.packbits(first)]

    @property
    def probability(self) -> NDArray[np.float64]:
        """Stationary probability of each client."""
        return self.p.copy()

    def _active(self, t: int) -> NDArray[np.bool_]:
        known, state = self._nearest(t)
        for later in range(known + 1, t + 1):
            draws = self._draws.uniforms(later, self.clients)
            state = np.where(state, draws >= self.deactivation, draws < self.activation)
            self._remember(later, state)
        self._latest = (t, state)
        return state.copy()

    def _nearest(self, t: int) -> tuple[int, NDArray[np.bool_]]:
        """Return the last known state that is not after round ``t``, and its round."""
        index = min(t // self._spacing, len(self._snapshots) - 1)
        if index * self._spacing <= self._latest[0] <= t:
            return self._latest
        bits = np.unpackbits(self._snapshots[index], count=self.clients)
        return index * self._spacing, bits.astype(np.bool_)

    def _remember(self, t: int, state: NDArray[np.bool_]) -> None:
        if t != len(self._snapshots) * self._spacing:
            return
        self._snapshots.append(np.packbits(state))
        if len(self._snapshots) > _MAX_SNAPSHOTS:
            self._snapshots = self._snapshots[::2]
            self._spacing *= 2


def check_activation(value: float) -> None:
    """Raise ValueError unless an upper bound of P(off→on) is in (0, 1]."""
    check("max_activation", value, 0 < value <= 1, "it must be in (0, 1]")
