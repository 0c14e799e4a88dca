"""Participation with a pause after every turn."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..checks import check, is_integer
from .chain import Chain
from .process import Process

_LONGEST = 2**15


class Separated(Chain):
    """As another process, but a client stays away for ``separation`` rounds after every turn.

    A client that comes with probability ``p`` otherwise then has intervals of ``separation + 1/p``
    rounds on average; a cutoff `K` of FedAU must be far above the separation.
    """

    def __init__(self, process: Process, separation: int) -> None:
        check("process", process, isinstance(process, Process), "one such as Bernoulli(p, seed)")
        fine = is_integer(separation, 0) and separation < _LONGEST
        check("separation", separation, fine, f"an integer from 0 to {_LONGEST - 1}")
        self.process = process
        self.separation = int(separation)
        # How many rounds a client still stays away, of which the one of its turn is the first.
        super().__init__(self._next(0, np.zeros(process.clients, np.uint16)))

    def _next(self, t: int, state: NDArray[Any]) -> NDArray[Any]:
        left = state - (state > 0)
        turns = (left == 0) & self.process.active(t)
        return np.where(turns, self.separation + 1, left).astype(np.uint16)

    def _there(self, state: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray(state == self.separation + 1)
