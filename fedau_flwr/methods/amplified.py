r"""Amplified FedAvg: now and then the server goes on in the direction of the last rounds.

Every :math:`P` rounds :math:`x \leftarrow x_P + a (x - x_P)`, with :math:`a` the factor and
:math:`x_P` the model of the last such round. It is the server's alone, and costs one model there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..arrays import Arrays, is_averaged, moved, wire_dtype
from ..checks import check, check_count, is_number
from ..server.strategy import SumStrategy
from ..wire.parts import Parts


class Amplified(SumStrategy):
    r"""Amplifies what a strategy does over some rounds: ``Amplified(FedAU(250), period=10)``.

    After every round whose number is a multiple of the period,
    :math:`x \leftarrow x_P + a (x - x_P)`, also if nobody came in it. It takes the strategy over:
    use this one from then on. Clients and messages are those of the strategy inside; the server
    holds one model more.

    Parameters
    ----------
    strategy : SumStrategy
        One whose clients hold neither a memory nor a model: `FedAU`, also with unit weights, known
        statistics or a server optimiser.
    period : int (default: 10)
        `P`.
    factor : float (default: 2.0)
        `a`, at least 1.
    """

    def __init__(self, strategy: SumStrategy, *, period: int = 10, factor: float = 2.0) -> None:
        if not isinstance(strategy, SumStrategy) or strategy.transform.remembers:
            raise ValueError(
                f"strategy is {type(strategy).__name__}, but must be one of fedau_flwr whose "
                "clients have no memory, such as FedAU."
            )
        check("factor", factor, is_number(factor, 1), "a finite number >= 1")
        # Not super().__init__: everything that a strategy has is shared with the one inside.
        vars(self).update(vars(strategy))
        self.inner = strategy
        self.transform = strategy.transform
        self.period = check_count("period", period)
        self.factor = factor
        self.anchor: Arrays = {}

    def step(self, model: Arrays, sums: Parts | None, participants: int) -> Arrays:
        """Let the strategy make its step, and amplify those of a period at its end."""
        self.anchor = self.anchor or {name: np.array(value) for name, value in model.items()}
        after = self.inner.step(model, sums, participants)
        if self.ledger.round % self.period:
            return after
        way = {
            name: np.subtract(after[name], value, dtype=wire_dtype(value.dtype))
            for name, value in self.anchor.items()
            if is_averaged(value.dtype)
        }
        whole = {name: value for name, value in after.items() if name not in way}
        after = {**moved(self.anchor, way, self.factor), **whole}
        self.anchor = dict(after)
        return {name: after[name] for name in model}

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the model."""
        return {**self.inner.state_dict(), "anchor": dict(self.anchor)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.inner.load_state_dict(state)
        self.anchor = dict(state["anchor"])

    def settings(self) -> dict[str, object]:
        """Return what `summary` says about the method."""
        return {"Period": self.period, "Factor": self.factor, **self.inner.settings()}
