"""Row 4: the plain training step against ours."""

from __future__ import annotations

import numpy as np

from simulations.bench.bare_loop import BareLoop
from simulations.bench.row import Row
from simulations.bench.settings import WARM_UP, BenchSettings
from simulations.bench.side_by_side import Say, Sides


def step_row(settings: BenchSettings, say: Say) -> Row:
    """Run bare loops with either step, round by round in turns."""
    config, sides = settings.config, Sides()
    say("row 4: the training step")
    with (
        BareLoop(config, settings.workers) as ours,
        BareLoop(config, settings.workers, "plain") as plain,
    ):
        seconds = [
            (plain.round(number), ours.round(number)) for number in range(1, config.rounds + 1)
        ]
    sides.add("plain", *np.transpose(seconds[WARM_UP:]))
    medians = {"plain": sides.median("plain"), "ours": sides.reference()}
    return Row(
        "step",
        "bare loop with a plain module / with our training step",
        sides.ratio("plain"),
        "at least",
        1.4,
        details={f"{name}-seconds": value for name, value in medians.items()},
        profile={name: 1e3 * value for name, value in medians.items()},
    )
