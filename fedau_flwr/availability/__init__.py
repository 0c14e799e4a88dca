"""Who is there in which round: participation processes, and a grid that plays them."""

from ..client.identity import answer_identity
from .cyclic import Cyclic
from .device_traces import read_events, read_fedscale, read_flash
from .grid import AvailabilityGrid
from .host_grid import HostGrid
from .identity import IdentifiedGrid
from .independent import ArrivalDeparture, Bernoulli, Independent, InterleavedSine, Sine, Staircase
from .markov import Markov
from .probabilities import participation_probabilities, uniform_class_probabilities
from .process import Process
from .separated import Separated
from .timeline import Timeline
from .trace import Trace

__all__ = [
    "ArrivalDeparture",
    "AvailabilityGrid",
    "Bernoulli",
    "Cyclic",
    "HostGrid",
    "IdentifiedGrid",
    "Independent",
    "InterleavedSine",
    "Markov",
    "Process",
    "Separated",
    "Sine",
    "Staircase",
    "Timeline",
    "Trace",
    "answer_identity",
    "participation_probabilities",
    "read_events",
    "read_fedscale",
    "read_flash",
    "uniform_class_probabilities",
]
