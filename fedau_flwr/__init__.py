"""FedAU for Flower: unbiased federated averaging when clients come and go."""

from . import _moved
from .availability import AvailabilityGrid, Bernoulli, Cyclic, Markov, Trace, answer_identity
from .client.mixin import FedAUMixin
from .client.mod import FedAUMod
from .client.transform import Transform
from .methods.amplified import Amplified
from .methods.fedau import FedAU
from .methods.fedawe import FedAWE
from .methods.fedstale import FedStale
from .methods.fedvarp import FedVARP
from .methods.mifa import MIFA
from .methods.mimic import MimiC
from .methods.optimisers import FedAUAdagrad, FedAUAdam, FedAUAvgM, FedAUYogi
from .privacy import AdaptiveNorm, GaussianPrivacy, MatrixPrivacy, PrivacyBudget
from .secure import SecureSum, SecureSumMod
from .server.loop import RoundLoop
from .server.strategy import SumStrategy
from .weight_state import WeightState
from .weighting import (
    FedAUWeighting,
    FrequencyWeighting,
    InverseProbabilityWeighting,
    UnitWeighting,
)

_moved.install()

__all__ = [
    "MIFA",
    "AdaptiveNorm",
    "Amplified",
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
    "FedAWE",
    "FedStale",
    "FedVARP",
    "FrequencyWeighting",
    "GaussianPrivacy",
    "InverseProbabilityWeighting",
    "Markov",
    "MatrixPrivacy",
    "MimiC",
    "PrivacyBudget",
    "RoundLoop",
    "SecureSum",
    "SecureSumMod",
    "SumStrategy",
    "Trace",
    "Transform",
    "UnitWeighting",
    "WeightState",
    "answer_identity",
]
