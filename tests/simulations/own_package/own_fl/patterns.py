"""A participation pattern of one's own: weeks with days off."""

from dataclasses import dataclass

import numpy as np

from fedau_flwr.availability import Bernoulli, Process
from simulations.patterns import Pattern


class Weeks(Process):
    """Clients come as under a Bernoulli pattern on working days, and not at all on others."""

    def __init__(self, p, seed, workdays):
        super().__init__(len(p))
        self.days = Bernoulli(p, seed)
        self.workdays = workdays

    def _active(self, t):
        working = t % 7 < self.workdays
        return self.days.active(t) if working else np.zeros(self.clients, bool)


@dataclass(frozen=True)
class Weekdays(Pattern):
    """Nobody comes at weekends; a round is a day."""

    workdays: int = 5

    def process(self, p, *, seed, rounds):
        """Return who is there in which round."""
        return Weeks(p, seed, self.workdays)
