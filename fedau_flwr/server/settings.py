"""Settings of a strategy that are of the wrong kind, each in one sentence."""

import inspect
from collections.abc import Iterable, Mapping
from types import UnionType

from flwr.serverapp.strategy import FedAvg

from ..arrays import Arrays, is_averaged
from ..checks import check
from ..privacy import GaussianPrivacy, MatrixPrivacy
from .roster import Roster
from .summation import Summation

_KINDS: dict[str, tuple[type | UnionType, str]] = {
    "summation": (Summation, "SecureSum()"),
    "privacy": (GaussianPrivacy | MatrixPrivacy, "GaussianPrivacy(norm=1.0, noise_multiplier=1.0)"),
    "roster": (Roster, "grid.roster"),
}


def check_settings(
    strategy: type,
    positive: Mapping[str, float | None],
    kinds: Mapping[str, object],
    options: Iterable[str],
) -> None:
    """Raise ValueError unless numbers are positive, objects of their kind and options FedAvg's."""
    for name, number in positive.items():
        numeric = isinstance(number, int | float) and not isinstance(number, bool)
        rule = "> 0 seconds" if name == "round_timeout" else "> 0"
        check(name, number, number is None or (numeric and number > 0), rule)
    for name, value in kinds.items():
        kind, example = _KINDS[name]
        fine = value is None or isinstance(value, kind)
        check(name, value, fine, f"an object such as {example}")
    for name in sorted({*options} - inspect.signature(FedAvg).parameters.keys()):
        raise ValueError(f"{name} is given, but {strategy.__name__} has no {name}.")


def check_model(model: Arrays) -> None:
    """Raise ValueError if a model has nothing that could be averaged."""
    if not any(is_averaged(value.dtype) for value in model.values()):
        kinds = ", ".join(sorted({str(value.dtype) for value in model.values()})) or "none"
        raise ValueError(
            f"The model's arrays are {kinds}, but one at least must be of floating point: a "
            "serialised model, such as boosted trees, cannot be summed."
        )
