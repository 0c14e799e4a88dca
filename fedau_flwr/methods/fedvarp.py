r"""FedVARP, variance-reduced federated averaging, over one sum.

The client half is MIFA's: :math:`c = \Delta - y`. The server moves by
:math:`x \leftarrow x + \eta (\Sigma c / |S_t| + \bar y)`, then :math:`\bar y \leftarrow \bar y +
\Sigma c / N`. It costs two models on a client (its last update, and what it sent until that is
known to be counted), and one on the server.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Arrays, moved
from ..wire.parts import UPDATE, Parts
from .mifa import MemoryStrategy


class FedVARP(MemoryStrategy):
    r"""Corrects the participants' mean by what all clients have sent before.

    :math:`x \leftarrow x + \eta (\Sigma c / |S_t| + \bar y)`, then :math:`\bar y \leftarrow
    \bar y + \Sigma c / N`; nobody came: the model stays. Takes the options of `SumStrategy`.
    """

    def step(self, model: Arrays, sums: Parts | None, participants: int) -> Arrays:
        """Move along the corrected mean of the participants, then update the memory."""
        self.prepare(model)
        if sums is None or participants == 0:
            return model
        direction = {}
        for name, value in sums[UPDATE].items():
            share = np.asarray(value / value.dtype.type(participants))
            direction[name] = np.add(share, self.mean[name], out=share)
        self.remember(sums[UPDATE])
        return moved(model, direction, self.server_learning_rate)
