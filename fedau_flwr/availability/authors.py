"""The participation of the paper's authors, coin by coin.

Their program takes everything from one numpy stream: the split, the probabilities, one draw per
client that sets up its sampler, and then in every round one coin per client, in the order of
clients. `RandomState` is frozen by numpy's policy, so the very paths behind the paper's tables can
be had. A coin per client and round drawn as an array takes the same numbers as one by one.
"""

from abc import abstractmethod
from copy import deepcopy

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .cyclic import Cyclic
from .markov import check_activation
from .process import Process, as_probabilities

Flags = NDArray[np.bool_]


class _Coins(Process):
    """A path that can only be drawn forward; it is kept, one bit per client and round.

    The ``stream`` is as it is after split and probabilities, and is copied.
    """

    def __init__(self, p: ArrayLike, stream: np.random.RandomState) -> None:
        self.p = as_probabilities(p)
        super().__init__(self.p.size)
        self._stream = deepcopy(stream)
        self._path = bytearray()
        self._width = -(-self.clients // 8)
        self._state = np.zeros(self.clients, dtype=np.bool_)

    @property
    def probability(self) -> NDArray[np.float64]:
        """Stationary probability of each client."""
        return self.p.copy()

    def _active(self, t: int) -> Flags:
        while len(self._path) <= t * self._width:
            self._state = self._next(self._state)
            self._path += np.packbits(self._state).tobytes()
        bits = np.frombuffer(self._path, np.uint8, self._width, t * self._width).copy()
        return np.unpackbits(bits, count=self.clients).astype(np.bool_)

    def _flip(self, chances: NDArray[np.float64]) -> Flags:
        return np.asarray(self._stream.binomial(1, chances) == 1)

    @abstractmethod
    def _next(self, state: Flags) -> Flags:
        """Return who is there in the round after that of ``state``."""


class AuthorsBernoulli(_Coins):
    """Client n is there with probability ``p[n]`` in every round."""

    def _next(self, state: Flags) -> Flags:
        return self._flip(self.p)


class AuthorsMarkov(_Coins):
    """As `Markov`, but a transition comes before the first round already."""

    def __init__(
        self, p: ArrayLike, stream: np.random.RandomState, max_activation: float = 0.05
    ) -> None:
        super().__init__(p, stream)
        check_activation(max_activation)
        with np.errstate(over="ignore"):  # 1/p of the tiniest p: such a client never comes
            leaving = max_activation * (1 / self.p - 1)
        self.activation = max_activation / np.maximum(1.0, leaving)
        self.deactivation = np.minimum(1.0, leaving)
        self._state = self._flip(self.p)

    def _next(self, state: Flags) -> Flags:
        return state ^ self._flip(np.where(state, self.deactivation, self.activation))


class AuthorsCyclic(Cyclic):
    """As `Cyclic` that starts inactive, with at least one round away in every cycle."""

    def __init__(self, p: ArrayLike, stream: np.random.RandomState, period: int = 100) -> None:
        super().__init__(p, 0, period, "starts-inactive")
        away = np.maximum(1, self.period - self.active_rounds)
        self.first_active = deepcopy(stream).randint(away)
        self.cycle = self.active_rounds + away
