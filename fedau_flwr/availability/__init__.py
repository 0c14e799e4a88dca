"""Who is there in which round: participation processes, and a grid that plays them."""

from ..client.identity import answer_identity
from .cyclic import Cyclic
from .grid import AvailabilityGrid
from .host_grid import HostGrid
from .identity import IdentifiedGrid
from .independent import ArrivalDeparture, Bernoulli, Independent, Sine, Staircase
from .markov import Markov
from .probabilities import participation_probabilities
from .process import Process
from .trace import Trace

__all__ = [
    "ArrivalDeparture",
    "AvailabilityGrid",
    "Bernoulli",
    "Cyclic",
    "HostGrid",
    "IdentifiedGrid",
    "Independent",
    "Markov",
    "Process",
    "Sine",
    "Staircase",
    "Trace",
    "answer_identity",
    "participation_probabilities",
]
