"""Participation that is independent from round to round.

Where the probability changes over time there is no stationary one; ``p`` is what is modulated.
"""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import check, check_count, check_positive, is_number
from .draws import Draws
from .process import Process, as_probabilities

_NEVER = np.iinfo(np.int64).max


class Independent(Process):
    """Clients come independently of each other and of other rounds, with a probability per round.

    Every subclass takes ``p``, N numbers in (0, 1], and a seed of the path. It compares the same
    numbers of a seed with its own probabilities, so two of them differ only where these do.
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


class Sine(Independent):
    """``p_t = min(1, p·(level + amplitude·sin(2π·t/period)))``: the mean is ``level·p``.

    The amplitude is from 0 to the level, the period in rounds.
    """

    def __init__(
        self,
        p: ArrayLike,
        seed: int,
        *,
        amplitude: float = 0.5,
        period: int = 100,
        level: float = 1.0,
    ) -> None:
        super().__init__(p, seed)
        check_positive("level", level)
        check("amplitude", amplitude, is_number(amplitude, 0, level), f"in [0, {level:g}]")
        self.amplitude = amplitude
        self.period = check_count("period", period)
        self.level = level

    def probability_at(self, t: int) -> NDArray[np.float64]:
        """Return each client's probability to be there in round ``t``."""
        swing = self.level + self.amplitude * np.sin(2 * np.pi * (t % self.period) / self.period)
        return np.asarray(np.minimum(1.0, self.p * swing))


class InterleavedSine(Sine):
    """As `Sine`, but a probability below ``least`` is 0: rare clients come at the crests alone.

    The defaults are those of FedAWE's experiments.
    """

    def __init__(
        self,
        p: ArrayLike,
        seed: int,
        *,
        amplitude: float = 0.3,
        period: int = 20,
        level: float = 0.7,
        least: float = 0.1,
    ) -> None:
        super().__init__(p, seed, amplitude=amplitude, period=period, level=level)
        check("least", least, is_number(least, 0, 1), "in [0, 1]")
        self.least = least

    def probability_at(self, t: int) -> NDArray[np.float64]:
        """Return each client's probability to be there in round ``t``."""
        p = super().probability_at(t)
        return np.where(p < self.least, 0.0, p)


class Staircase(Independent):
    """``p_t = min(1, p·level)``; each of the levels holds for ``length`` rounds, over and over."""

    def __init__(
        self, p: ArrayLike, seed: int, *, levels: Sequence[float] = (1.0, 0.4), length: int = 50
    ) -> None:
        super().__init__(p, seed)
        fine = len(levels) > 0 and all(is_number(level, 0) for level in levels)
        check("levels", levels, fine, "finite numbers >= 0")
        self.levels = tuple(float(level) for level in levels)
        self.length = check_count("length", length)

    def probability_at(self, t: int) -> NDArray[np.float64]:
        """Return each client's probability to be there in round ``t``."""
        return np.minimum(1.0, self.p * self.levels[t // self.length % len(self.levels)])


class ArrivalDeparture(Independent):
    """A client comes with probability ``p`` from its arrival to its departure, and never else.

    With probability ½ a client is a member from round 0, otherwise it arrives at a round uniform
    over ``1 … rounds - 1``. With probability ½ it stays for good, otherwise it departs at a round
    uniform over those after its arrival, ``rounds`` included. (For stays of one's own choice there
    is ``Trace`` with events.)
    """

    def __init__(self, p: ArrayLike, seed: int, *, rounds: int) -> None:
        super().__init__(p, seed)
        self.rounds = check_count("rounds", rounds)
        draws = Draws(seed, "arrival-departure")
        late, when, leaves, until = (draws.uniforms(kind, self.clients) for kind in range(4))
        arrival = np.where(late < 0.5, 0, 1 + np.floor(when * (self.rounds - 1)))
        self.arrivals = np.minimum(arrival, self.rounds - 1).astype(np.int64)
        departure = self.arrivals + 1 + np.floor(until * (self.rounds - self.arrivals))
        self.departures = np.where(leaves < 0.5, _NEVER, departure.astype(np.int64))

    def probability_at(self, t: int) -> NDArray[np.float64]:
        """Return each client's probability to be there in round ``t``."""
        return np.where((self.arrivals <= t) & (t < self.departures), self.p, 0.0)
