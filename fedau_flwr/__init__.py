"""FedAU for Flower: unbiased federated averaging when clients come and go."""

from .availability import AvailabilityGrid, Bernoulli, Cyclic, Markov, Trace, answer_identity
from .client.mixin import FedAUMixin
from .client.mod import FedAUMod
from .methods.memory import MIFA, FedVARP
from .methods.optimisers import FedAUAdagrad, FedAUAdam, FedAUAvgM, FedAUYogi
from .privacy import AdaptiveNorm, GaussianPrivacy, PrivacyBudget
from .secure import SecureSum, SecureSumMod
from .server.loop import RoundLoop
from .server.strategy import FedAU
from .weight_state import WeightState
from .weighting import FedAUWeighting, InverseProbabilityWeighting, UnitWeighting

__all__ = [
    "MIFA",
    "AdaptiveNorm",
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
    "GaussianPrivacy",
    "InverseProbabilityWeighting",
    "Markov",
    "PrivacyBudget",
    "RoundLoop",
    "SecureSum",
    "SecureSumMod",
    "Trace",
    "UnitWeighting",
    "WeightState",
    "answer_identity",
]
