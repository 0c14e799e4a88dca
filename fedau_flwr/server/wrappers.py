"""Strategies of Flower that wrap another one and read what they must not.

Flower's differential privacy is a strategy around a strategy. It clips every reply against the
model that was sent, as if the reply were a model; a contribution is none, and the result is a
wrong model without any error. A wrapped strategy is not told about its wrapper, but called by it.
"""

from flwr.server import strategy as older
from flwr.serverapp import strategy as newer

from ..calling import caller

_NAMES = (
    "DifferentialPrivacyClientSideAdaptiveClipping",
    "DifferentialPrivacyClientSideFixedClipping",
    "DifferentialPrivacyServerSideAdaptiveClipping",
    "DifferentialPrivacyServerSideFixedClipping",
    "DPFedAvgAdaptive",
    "DPFedAvgFixed",
)
_WRAPPERS = tuple(
    getattr(module, name) for module in (newer, older) for name in _NAMES if hasattr(module, name)
)


def refuse_wrappers(strategy: object) -> None:
    """Raise ValueError if `strategy` is called by one of Flower's wrappers for privacy."""
    wrapper = caller(*_WRAPPERS)
    if wrapper is not None and getattr(wrapper, "strategy", None) is strategy:
        raise ValueError(
            f"{type(wrapper).__name__} is around {type(strategy).__name__}, but must be around a "
            "strategy whose clients send models: here they send weighted updates. Use "
            f"{type(strategy).__name__}(..., privacy=fedau_flwr.GaussianPrivacy(norm, "
            "noise_multiplier)) instead; see fedau_flwr.privacy."
        )
