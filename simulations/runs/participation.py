"""Who came, who was counted, and how the clients' weights moved."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.availability import AvailabilityGrid
from fedau_flwr.server.callbacks import Callback
from fedau_flwr.server.loop import RoundLoop
from fedau_flwr.server.report import RoundReport
from fedau_flwr.weight_state import WeightStates
from simulations.runs.experiment import Experiment
from simulations.runs.raster import COUNTED, RasterFile, states_of

TRACKED_PER_KIND = 3


class ParticipationRecord(Callback):
    """Counts participations; where weights are learned, also replays every client's, for plots.

    The clients compute their weights themselves and tell nobody. The simulator knows who was
    counted, which is all that the weights depend on.
    """

    in_checkpoints = ("participated", "counted")

    def __init__(self, experiment: Experiment, grid: AvailabilityGrid, raster: Path) -> None:
        clients = experiment.config.clients
        self.split = experiment.split
        self._process = experiment.process
        self._probabilities = experiment.probabilities
        self._grid = grid
        self._raster = RasterFile(raster, clients)
        self.participated, self.counted = np.zeros((2, clients), np.int64)
        self.last = (0, 0)
        self._weighting = experiment.config.algorithm.learned_weighting()
        if self._weighting is not None:
            self._states = WeightStates.repeat(self._weighting.initial(), clients)
            self._tracked = _representative(experiment.probabilities)
            self._mean: list[float] = []
            self._weights: list[NDArray[np.float64]] = []

    def on_start(self, loop: RoundLoop) -> None:
        """Begin the raster, or cut it where a resumed run goes on."""
        self._raster.begin(loop.round)

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """Note who came and who was counted in the round that has just ended."""
        with loop.timed("record"):
            came = self._process.active(loop.round - 1)
            counted, roster = report.clients, self._grid.roster
            if getattr(loop.strategy, "last_round", None) is not report:
                # A strategy that writes no reports of its own knows nodes alone.
                counted = tuple(client for node in counted for client in roster.clients(node))
            rejected = [client for node in report.reasons for client in roster.clients(node)]
            there = np.flatnonzero(came)
            states = states_of(len(came), came=there, rejected=rejected, counted=counted)
            self._raster.append(states)
            mask = states == COUNTED
            self.last = (int(came.sum()), len(counted))
            self.participated += came
            self.counted += mask
            if self._weighting is not None:
                self._mean.append(float(self._states.weight.mean()))
                self._weights.append(self._states.weight[self._tracked])
                self._states = self._weighting.advance_all(self._states, mask)

    def arrays(self) -> dict[str, Any]:
        """Return what goes into participation.npz."""
        result = {
            "probability": self._probabilities,
            "class_shares": self.split.class_shares,
            "sizes": self.split.sizes,
            "participated": self.participated,
            "counted": self.counted,
        }
        if self._weighting is not None:
            result |= {
                "weight": self._states.weight,
                "tracked": self._tracked,
                "mean_weight": np.array(self._mean),
                "tracked_weights": np.array(self._weights).reshape(-1, len(self._tracked)),
            }
        return result

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        state = super().state_dict()
        if self._weighting is not None:
            names = ("round", "intervals", "elapsed", "weight")
            state["states"] = {name: getattr(self._states, name) for name in names}
            state["mean"] = np.array(self._mean)
            state["tracked"] = np.array(self._weights).reshape(-1, len(self._tracked))
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        super().load_state_dict(state)
        if self._weighting is not None:
            self._states = WeightStates(**state["states"])
            self._mean = state["mean"].tolist()
            self._weights = list(state["tracked"])


def _representative(probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return some clients of the largest, of median and of the smallest probabilities."""
    order = np.argsort(-probabilities, kind="stable")
    middle = len(order) // 2
    kinds = (order[:TRACKED_PER_KIND], order[middle : middle + TRACKED_PER_KIND])
    return np.unique(np.concatenate([*kinds, order[-TRACKED_PER_KIND:]]))
