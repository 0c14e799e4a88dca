"""FedAU for Flower: unbiased federated averaging when clients come and go."""

from .availability import AvailabilityGrid, Bernoulli, Cyclic, Markov, Trace, answer_identity
from .memory import MIFA, FedVARP
from .mixin import FedAUMixin
from .mod import FedAUMod
from .optimisers import FedAUAdagrad, FedAUAdam, FedAUAvgM, FedAUYogi
from .strategy import FedAU
from .weight_state import WeightState
from .weighting import FedAUWeighting, InverseProbabilityWeighting, UnitWeighting

__all__ = [
    "MIFA",
    "AvailabilityGrid",
    "Bernoulli",
    "Cyclic",
    "FedAU",
    "FedAUAdagrad",
    "FedAUAdam",
    "FedAUAvgM",
    "FedAUMixin",
    "FedAUMod",
    "FedAUWeighting",
    "FedAUYogi",
    "FedVARP",
    "InverseProbabilityWeighting",
    "Markov",
    "Trace",
    "UnitWeighting",
    "WeightState",
    "answer_identity",
]
