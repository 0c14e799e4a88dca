r"""Aggregation weights from a client's own participation history.

Algorithm 1 of the paper leaves open how a client computes its weight :math:`\omega_t` from
the past; the classes here are its oracles. `FedAUWeighting` (Algorithm 2) splits the history
into intervals that end with a participation, or after ``cutoff`` rounds without one, and
uses their mean length: an estimate of :math:`1/p` that needs no knowledge of :math:`p`.

The weight for a round depends on the rounds before it and never on the round itself: a
client settles what happened first, and takes the weight then.
"""

from abc import ABC, abstractmethod
from dataclasses import astuple

import numpy as np
from numpy.typing import NDArray

from .checks import check, is_integer, is_number
from .weight_state import StateError, WeightState, WeightStates


class Weighting(ABC):
    """How a client turns its participation history into its weight."""

    def __repr__(self) -> str:
        """Name the weighting and its parameters: a state is not gone on with under another name."""
        return f"{type(self).__name__}()"

    def initial(self) -> WeightState:
        """Return the state before the first round: no interval, weight 1."""
        return WeightState()

    @abstractmethod
    def advance(self, state: WeightState, participated: bool) -> WeightState:
        """Return the state after one more round."""

    @abstractmethod
    def skip(self, state: WeightState, rounds: int) -> WeightState:
        """Return the state after `rounds` rounds without participation, in O(1)."""

    def advance_all(self, states: WeightStates, participated: NDArray[np.bool_]) -> WeightStates:
        """Advance one state per client."""
        after = [self.advance(states[n], bool(came)) for n, came in enumerate(participated)]
        return WeightStates(*map(np.array, zip(*map(astuple, after), strict=True)))

    def check(self, state: WeightState) -> None:
        """Raise `StateError` if this weighting cannot have produced `state`."""
        del state


def check_cutoff(name: str, cutoff: object) -> None:
    """Raise ValueError unless a cutoff is one, or None."""
    # Not NumPy's: what is divided by it goes into states, which are written as JSON.
    fine = cutoff is None or (isinstance(cutoff, int) and is_integer(cutoff, 1))
    check(name, cutoff, fine, "an integer >= 1 or None")


class FedAUWeighting(Weighting):
    r"""Algorithm 2: the mean length of the client's participation intervals.

    An interval of length :math:`S` closes when the client took part or when :math:`S = K`.
    Every round belongs to exactly one interval, so the mean over the :math:`M` closed ones
    is :math:`\omega = (t - S) / M`; before the first has closed, :math:`\omega = 1`.

    Parameters
    ----------
    cutoff : int | None (default: 50)
        :math:`K`. Small values bias the weights of rare clients downwards, large ones let
        their weights vary more. `None` is :math:`K \to \infty`.
    smoothing : float | None (default: None)
        :math:`\beta` of an exponentially weighted mean instead of the plain one,
        :math:`\omega \leftarrow (1-\beta)\omega + \beta S`, for habits that change.
    """

    def __init__(self, cutoff: int | None = 50, smoothing: float | None = None) -> None:
        check_cutoff("cutoff", cutoff)
        fine = smoothing is None or (is_number(smoothing, 0, 1) and smoothing > 0)
        check("smoothing", smoothing, fine, "in (0, 1] or None")
        self.cutoff = cutoff
        self.smoothing = smoothing

    def __repr__(self) -> str:
        return f"FedAUWeighting(cutoff={self.cutoff}, smoothing={self.smoothing})"

    def advance(self, state: WeightState, participated: bool) -> WeightState:
        """Return the state after one more round."""
        if not participated:
            return self.skip(state, 1)
        length = state.elapsed + 1
        return self._close(state, state.round + 1, intervals=1, length=length, elapsed=0)

    def skip(self, state: WeightState, rounds: int) -> WeightState:
        """Return the state after `rounds` rounds without participation, in O(1)."""
        if rounds < 0:
            raise ValueError(f"rounds is {rounds}, but a client cannot skip fewer than 0 rounds.")
        elapsed = state.elapsed + rounds
        if self.cutoff is None or elapsed < self.cutoff:
            return WeightState(state.round + rounds, state.intervals, elapsed, state.weight)
        closed, elapsed = divmod(elapsed, self.cutoff)
        return self._close(state, state.round + rounds, closed, self.cutoff, elapsed)

    def _close(
        self, state: WeightState, now: int, intervals: int, length: int, elapsed: int
    ) -> WeightState:
        """Let `intervals` intervals of the same `length` enter the mean."""
        total = state.intervals + intervals
        if self.smoothing is None:
            weight = (now - elapsed) / total
        elif state.intervals == 0:
            weight = float(length)
        else:
            kept = (1.0 - self.smoothing) ** intervals
            weight = length + kept * (state.weight - length)
        return WeightState(now, total, elapsed, weight)

    def advance_all(self, states: WeightStates, participated: NDArray[np.bool_]) -> WeightStates:
        """Advance one state per client in one vectorised call.

        Equals `advance` for each of them to the last bit.
        """
        now = states.round + 1
        elapsed = states.elapsed + 1
        closes = np.array(participated, dtype=bool)
        if self.cutoff is not None:
            closes |= elapsed == self.cutoff
        closing = np.flatnonzero(closes)
        length = elapsed[closing]
        elapsed[closing] = 0
        intervals = states.intervals + closes
        weight = states.weight.copy()
        if self.smoothing is None:
            weight[closing] = now[closing] / intervals[closing]
        else:
            smoothed = length + (1.0 - self.smoothing) * (weight[closing] - length)
            weight[closing] = np.where(intervals[closing] == 1, length, smoothed)
        return WeightStates(now, intervals, elapsed, weight)

    def check(self, state: WeightState) -> None:
        """Raise `StateError` if this weighting cannot have produced `state`."""
        if self.cutoff is not None and state.elapsed >= self.cutoff:
            raise StateError("elapsed", state.elapsed, f"below the cutoff of {self.cutoff}")
        if self.cutoff is not None and state.weight > self.cutoff:
            raise StateError("weight", state.weight, f"at most the cutoff of {self.cutoff}")
        if state.intervals == 0 and state.weight != 1.0:
            raise StateError("weight", state.weight, "1 before the first interval has closed")
        if self.smoothing is None and state.intervals:
            mean = (state.round - state.elapsed) / state.intervals
            if abs(state.weight - mean) > 1e-9 * mean:
                raise StateError("weight", state.weight, f"the mean interval length {mean}")


class FrequencyWeighting(Weighting):
    r"""The inverse of how often the client took part: :math:`\omega = t / m`, 1 before the first.

    :math:`m` of the first :math:`t` rounds were counted. The plain counterpart of Algorithm 2: the
    running gap is in :math:`t` already, which biases the weight. Like `FedAUWeighting` it costs a
    client a few numbers, and neither the server nor the network anything.
    """

    def advance(self, state: WeightState, participated: bool) -> WeightState:
        """Return the state after one more round."""
        return self._at(state.round + 1, state.intervals + participated)

    def skip(self, state: WeightState, rounds: int) -> WeightState:
        """Return the state after `rounds` rounds without participation, in O(1)."""
        if rounds < 0:
            raise ValueError(f"rounds is {rounds}, but a client cannot skip fewer than 0 rounds.")
        return self._at(state.round + rounds, state.intervals)

    def _at(self, now: int, counted: int) -> WeightState:
        return WeightState(now, counted, 0, now / counted if counted else 1.0)

    def check(self, state: WeightState) -> None:
        """Raise `StateError` if this weighting cannot have produced `state`."""
        if state != (expected := self._at(state.round, state.intervals)):
            raise StateError("weight", state.weight, f"{expected.weight} with no running interval")

    def advance_all(self, states: WeightStates, participated: NDArray[np.bool_]) -> WeightStates:
        """Advance one state per client in one vectorised call."""
        now, counted = states.round + 1, states.intervals + participated
        weight = np.divide(now, counted, out=np.ones(len(now)), where=counted > 0)
        return WeightStates(now, counted, np.zeros_like(now), weight)


class InverseProbabilityWeighting(Weighting):
    """Weight ``1/p`` for a client whose participation probability is known."""

    def __init__(self, p: float) -> None:
        check("p", p, is_number(p, 0, 1) and p > 0, "a participation probability, in (0, 1]")
        self.p = p

    def __repr__(self) -> str:
        return f"InverseProbabilityWeighting({self.p})"

    def initial(self) -> WeightState:
        """Return the constant weight at `t = 0`."""
        return WeightState(weight=1.0 / self.p)

    def advance(self, state: WeightState, participated: bool) -> WeightState:
        """Return the state after one more round."""
        return self.skip(state, 1)

    def skip(self, state: WeightState, rounds: int) -> WeightState:
        """Return the state after `rounds` more rounds."""
        return WeightState(round=state.round + rounds, weight=1.0 / self.p)


class UnitWeighting(InverseProbabilityWeighting):
    """Weight 1, as in plain FedAvg: average-all, or average-participating at the server."""

    def __init__(self) -> None:
        super().__init__(1.0)

    def __repr__(self) -> str:
        return "UnitWeighting()"
