"""What every callback can be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loop import RoundLoop
    from .report import RoundReport


class Callback:
    """Something that a `RoundLoop` does beside training; override what it needs.

    Two methods are enough for most: `before_round` and `after_round`. Callbacks are called in
    the order of the loop's list. What they measure, they put into `loop.metrics`, where others
    find it; `loop.stop` ends the run. With `state_dict` and `load_state_dict` a callback is part
    of the checkpoints.
    """

    def prepare(self, loop: RoundLoop) -> None:
        """Come first of all: the round to go on from is not known yet."""

    def on_start(self, loop: RoundLoop) -> None:
        """Begin; `loop.round` rounds are in the model."""

    def before_round(self, loop: RoundLoop) -> None:
        """Come before round ``loop.round + 1``, which does not begin if this stops the loop."""

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """Measure or decide something after round `loop.round`."""

    def round_done(self, loop: RoundLoop, report: RoundReport) -> None:
        """Write down what is known after a round: every callback's `after_round` is done."""

    def on_end(self, loop: RoundLoop) -> None:
        """End, in whatever way: `loop.status` and `loop.sentence` say how."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs; nothing by default."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
