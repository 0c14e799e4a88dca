r"""`MIFA` and `FedVARP`: server rules over the sum of what changed.

Both hold the last update of every client. The client holds its own, `y`, and sends the change
`c = Δ − y` (the strategies say so in their train messages and `FedAUMod` obeys), so the server
needs only sums here as well, and one array the size of the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..client.contribution import is_averaged, wire_dtype
from ..client.store import Arrays
from ..server.strategy import FedAU, moved


class _MemoryStrategy(FedAU):
    """Keeps the mean of what all clients have sent, those that never came included."""

    memory = True

    def __init__(self, num_clients: int, **options: Any) -> None:
        for name in ("divisor", "groups", "group_cutoff"):
            if name in options:
                raise ValueError(f"{name} is given, but {type(self).__name__} has no {name}.")
        super().__init__(num_clients, **options)
        self.mean: Arrays = {}

    def _prepare(self, model: Arrays) -> None:
        if not self.mean:
            self.mean = {
                name: np.zeros(value.shape, wire_dtype(value.dtype))
                for name, value in model.items()
                if is_averaged(value.dtype)
            }

    def _remember(self, total: Arrays) -> None:
        for name, value in total.items():
            self.mean[name] = self.mean[name] + value / value.dtype.type(self.num_clients)

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs beside the model."""
        return {**super().state_dict(), "mean": dict(self.mean)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        super().load_state_dict(state)
        self.mean = dict(state["mean"])


class MIFA(_MemoryStrategy):
    r"""Memory-augmented impatient federated averaging.

    :math:`G \leftarrow G + \Sigma c / N`, then :math:`x \leftarrow x + \eta G`, also in rounds
    in which nobody came. Takes the options of `FedAU`, save for `divisor` and groups.
    """

    def step(self, model: Arrays, total: Arrays | None, participants: int) -> Arrays:
        """Update the memory and move along it."""
        del participants
        self._prepare(model)
        if total is not None:
            self._remember(total)
        return moved(model, self.mean, self.server_learning_rate)


class FedVARP(_MemoryStrategy):
    r"""Variance-reduced federated averaging.

    :math:`x \leftarrow x + \eta (\Sigma c / |S_t| + \bar y)`, then :math:`\bar y \leftarrow
    \bar y + \Sigma c / N`. Takes the options of `FedAU`, save for `divisor` and groups.
    """

    def step(self, model: Arrays, total: Arrays | None, participants: int) -> Arrays:
        """Move along the corrected mean of the participants, then update the memory."""
        self._prepare(model)
        if total is None or participants == 0:
            return model
        direction = {
            name: value / value.dtype.type(participants) + self.mean[name]
            for name, value in total.items()
        }
        self._remember(total)
        return moved(model, direction, self.server_learning_rate)
