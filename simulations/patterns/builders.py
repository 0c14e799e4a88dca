"""The participation patterns by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.availability import (
    ArrivalDeparture,
    Bernoulli,
    Cyclic,
    Markov,
    Process,
    Sine,
    Staircase,
    Trace,
)

if TYPE_CHECKING:
    from simulations.config import RunConfig

Probabilities = NDArray[np.float64]


def _trace(p: Probabilities, config: RunConfig) -> Process:
    try:
        return Trace(Path(config.trace).expanduser(), clients=len(p), repeat=True)
    except OSError as error:
        reason = f"be a file that can be read ({error.strerror})"
        raise ValueError(f"trace is {config.trace!r}, but must {reason}.") from None


_BUILDERS: dict[str, Callable[[Probabilities, RunConfig], Process]] = {
    "bernoulli": lambda p, config: Bernoulli(p, config.seed),
    "markov": lambda p, config: Markov(p, config.seed),
    "cyclic": lambda p, config: Cyclic(p, config.seed),
    "cyclic-starts-inactive": lambda p, config: Cyclic(p, config.seed, variant="starts-inactive"),
    "trace": _trace,
    "sine": lambda p, config: Sine(p, config.seed),
    "staircase": lambda p, config: Staircase(p, config.seed),
    "arrival-departure": lambda p, config: ArrivalDeparture(p, config.seed, rounds=config.rounds),
}

REAL = "real"
"""Nobody simulates anything: clients are SuperNodes of a deployment, and come and go."""

PATTERNS = (*_BUILDERS, REAL)


def build_process(p: Probabilities, config: RunConfig) -> Process:
    """Return who is there in which round, for clients of the probabilities ``p``."""
    if config.pattern == REAL:
        raise ValueError(
            f"pattern is {REAL!r}, but must be another one in a simulation: `fedau deploy local` "
            "and `flwr run` on a deployment have real participation."
        )
    return _BUILDERS[config.pattern](p, config)
