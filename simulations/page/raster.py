"""Who was there in which round, for the page: as the run wrote it down, or worked out again.

Runs of earlier versions and exported ones have no raster. Their path is a function of seed and
probabilities, and it is shown if it comes to the participations that the run did write down.
"""

import base64
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulations.config import AUTHORS, ConfigError, RunConfig
from simulations.page.view import RunView
from simulations.runs.experiment import open_experiment
from simulations.runs.raster import COUNTED, RasterFile, pack

MOST_CELLS = 40_000_000
"""That a browser gets: of many clients, these are the last rounds."""

_MOST_REPLAYED = 50_000_000


class Raster(NamedTuple):
    """Rounds from `first` on, packed as `simulations.runs.raster` says; `replayed` if not read."""

    clients: int
    first: int
    rounds: int
    packed: bytes
    replayed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return it as the page reads it."""
        return {**self._asdict(), "packed": base64.b64encode(self.packed).decode()}


def raster_of(view: RunView, after: int = 0, most: int = MOST_CELLS) -> Raster | None:
    """Return the rounds after `after`, and of these the last that make no more than `most` cells.

    `rounds` is the last round that there is.
    """
    file = view.run.raster_file
    if file.exists():
        try:
            found = RasterFile.open(file)
        except (OSError, ValueError) as error:
            view.reader.say(str(error))
            return None
        last = found.rounds
        first = max(after + 1, last - most // max(found.clients, 1) + 1, 1)
        return Raster(found.clients, first, last, found.packed(first, last))
    whole: Raster | None = view.cached_raster(_replayed)
    if whole is None:
        return None
    first = max(after + 1, whole.rounds - most // max(whole.clients, 1) + 1, 1)
    width = -(-whole.clients // 4)
    return whole._replace(first=first, packed=whole.packed[(first - 1) * width :])


def _replayed(view: RunView) -> Raster | None:
    config, found = view.config, view.arrays(view.run.participation_file)
    if config is None or not {"probability", "participated"} <= found.keys():
        return None
    if not config.participation.simulated:
        return None
    try:  # all methods under one participation share its path
        same = replace(
            config, method="fedau", lr=0.0, server_lr=0.0, secure_sum=False, kernel="auto"
        )
    except ConfigError:
        return None
    p, participated = (found[key] for key in ("probability", "participated"))
    if len(p) * config.rounds > _MOST_REPLAYED:
        return None
    return _path(same, tuple(p.tolist()), tuple(participated.tolist()))


@lru_cache(maxsize=16)
def _path(config: RunConfig, p: tuple[float, ...], participated: tuple[int, ...]) -> Raster | None:
    """Return the path up to where its sums are those that the run wrote down, if there is such."""
    try:
        if config.draw == AUTHORS:  # theirs follows from the data as well
            process = open_experiment(config).process
        else:
            make = config.participation.process
            process = make(np.array(p), seed=config.seed, rounds=config.rounds)
    except (ValueError, OSError):  # data or a trace that are elsewhere
        return None
    total, wanted = np.zeros(len(p), np.int64), sum(participated)
    rows: list[NDArray[np.bool_]] = []
    while int(total.sum()) < wanted and len(rows) < config.rounds:
        active = process.active(len(rows))
        total += active
        rows.append(active)
    if not rows or not np.array_equal(total, participated):
        return None
    # A round at the end in which nobody came leaves no trace in the sums.
    states = np.array(rows, np.uint8) * np.uint8(COUNTED)
    return Raster(len(p), 1, len(rows), pack(states).tobytes(), replayed=True)
