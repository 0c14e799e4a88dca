"""Times of the same rounds on several sides, and their ratios."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Say = Callable[[str], None]
"""Called with what is being measured."""


class Sides:
    """Seconds of each round by side and repetition; every side does the same work in a round."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[np.ndarray]] = {}

    @property
    def names(self) -> list[str]:
        """The sides."""
        return list(self._seconds)

    def add(self, side: str, seconds: np.ndarray) -> None:
        """Add a repetition."""
        self._seconds.setdefault(side, []).append(seconds)

    def median(self, side: str) -> float:
        """Return the median over all rounds and repetitions."""
        return float(np.median(self._seconds[side]))

    def ratio(self, above: str, below: str) -> float:
        """Return the median over rounds of the ratio of a round's medians over repetitions."""
        medians = [np.median(self._seconds[side], axis=0) for side in (above, below)]
        return float(np.median(medians[0] / medians[1]))
