"""Times of the same rounds on several sides, and their ratios."""

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

Say = Callable[[str], None]
"""Called with what is being measured."""


def milliseconds(
    call: Callable[[Any], object],
    values: Iterable[Any],
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the median time of a call over several values."""
    times = []
    for value in values:
        start = clock()
        call(value)
        times.append(clock() - start)
    return 1e3 * float(np.median(times))


class Sides:
    """Seconds of each round by side and repetition; every side does the same work in a round.

    A machine may be a fifth slower in the next minute, so a side's rounds are measured in turns
    with those of a reference and compared relative to it.
    """

    def __init__(self) -> None:
        self._runs: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}

    @property
    def names(self) -> list[str]:
        """The sides."""
        return list(self._runs)

    def add(self, side: str, seconds: np.ndarray, reference: np.ndarray) -> None:
        """Add a repetition, with the seconds of the reference beside it."""
        self._runs.setdefault(side, []).append((seconds, reference))

    def median(self, side: str) -> float:
        """Return the median over all rounds and repetitions."""
        return float(np.median([seconds for seconds, _ in self._runs[side]]))

    def reference(self, *sides: str) -> float:
        """Return the median of the reference beside these sides, or beside all."""
        runs = [run for side in sides or self._runs for run in self._runs[side]]
        return float(np.median([reference for _, reference in runs]))

    def ratio(self, above: str, below: str | None = None) -> float:
        """Return the median over rounds of a side's ratio to the reference or to another side.

        Of several repetitions, a round counts with its median ratio to the reference.
        """
        return float(np.median(self._relative(above) / (self._relative(below) if below else 1.0)))

    def _relative(self, side: str) -> np.ndarray:
        ratios = [seconds / reference for seconds, reference in self._runs[side]]
        return np.asarray(np.median(ratios, axis=0))
