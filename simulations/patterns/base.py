"""What a participation pattern is to the suite."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.availability import Process
from simulations.registry import Entry

Probabilities = NDArray[np.float64]


@dataclass(frozen=True)
class Pattern(Entry):
    """A family of participation processes; a subclass is a frozen dataclass with its parameters."""

    key = "pattern"

    simulated: ClassVar[bool] = True
    """Whether a simulation can play it."""

    recorded: ClassVar[bool] = False
    """Whether it comes from a file, whatever the clients' probabilities are."""

    needs_rounds: ClassVar[bool] = False
    """Whether it changes with the number of rounds, which then is the same in a resumed run."""

    @abstractmethod
    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return who is there in which round, with seed and number of rounds of the run.

        `p` has the participation probability of each client, in (0, 1].
        """

    def authors_process(self, p: Probabilities, stream: np.random.RandomState) -> Process | None:
        """Return the path of the paper's authors, who drew `p` from `stream`, if they have one."""
        del p, stream
        return None
