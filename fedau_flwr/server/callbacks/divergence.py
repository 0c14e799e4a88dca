"""An end for a training that has lost its model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...wire.records import decode_all
from ..callback import Callback
from ..loop import RoundLoop
from ..report import RoundReport

UNCOUNTED_ROUNDS = 20
"""Rounds with participants but without any finite update, after which a run has diverged."""


class StopOnDivergence(Callback):
    """Ends the run when no training brings the model back from where it has gone.

    That is: the model or a metric with "loss" in its name is not finite, or in 20 rounds in a row
    there were participants, but no update that could be counted.
    """

    def __init__(self) -> None:
        self._uncounted = 0

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """Count the rounds without any update that is of use."""
        if report.counted:
            self._uncounted = 0
        elif report.rejected:
            self._uncounted += 1

    def round_done(self, loop: RoundLoop, report: RoundReport) -> None:
        """Look at what there is after a round."""
        if reason := self._reason(loop):
            where = f"round {loop.round} of {loop.rounds}"
            loop.stop(f"The run ended after {where}, because {reason}.", status="diverged")

    def _reason(self, loop: RoundLoop) -> str | None:
        if self._uncounted >= UNCOUNTED_ROUNDS:
            return f"in {UNCOUNTED_ROUNDS} rounds with participants no update was finite and valid"
        if not all(np.isfinite(value).all() for value in decode_all(loop.arrays).values()):
            return "its model has values that are no finite numbers"
        losses = [value for name, value in loop.metrics.items() if "loss" in name]
        if any(isinstance(loss, float) and not math.isfinite(loss) for loss in losses):
            return "its loss is no finite number any more"
        return None

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        return {"uncounted": self._uncounted}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._uncounted = state["uncounted"]
