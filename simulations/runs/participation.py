"""Who came, who was counted, and how the clients' weights moved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.weight_state import WeightStates
from simulations.runs.experiment import Experiment

TRACKED_PER_KIND = 3


class ParticipationRecord:
    """Counts participations; where weights are learned, also replays every client's, for plots.

    The clients compute their weights themselves and tell nobody. The simulator knows who was
    counted, which is all that the weights depend on.
    """

    def __init__(self, experiment: Experiment) -> None:
        clients = experiment.config.clients
        self._experiment = experiment
        self.participated = np.zeros(clients, np.int64)
        self.counted = np.zeros(clients, np.int64)
        self.reported = (0, 0, 0)
        self._weighting = experiment.config.algorithm.learned_weighting()
        if self._weighting is not None:
            self._states = WeightStates.repeat(self._weighting.initial(), clients)
            self.tracked = _representative(experiment.probabilities)
            self._mean: list[float] = []
            self._tracked: list[NDArray[np.float64]] = []

    def add(self, participants: NDArray[np.int64], counted: NDArray[np.int64]) -> None:
        """Note one round."""
        self.participated[participants] += 1
        self.counted[counted] += 1
        if self._weighting is not None:
            self._mean.append(float(self._states.weight.mean()))
            self._tracked.append(self._states.weight[self.tracked])
            mask = np.zeros(len(self.counted), bool)
            mask[counted] = True
            self._states = self._weighting.advance_all(self._states, mask)

    def since_last_report(self, server_round: int) -> dict[str, float]:
        """Return the means per round since the last call."""
        now = (server_round, int(self.participated.sum()), int(self.counted.sum()))
        rounds, *sums = (new - old for new, old in zip(now, self.reported, strict=True))
        self.reported = now
        return dict(
            zip(("participants", "counted"), (s / max(rounds, 1) for s in sums), strict=True)
        )

    def arrays(self) -> dict[str, Any]:
        """Return what goes into participation.npz."""
        split = self._experiment.split
        result = {
            "probability": self._experiment.probabilities,
            "class_shares": split.class_shares,
            "sizes": split.sizes,
            "participated": self.participated,
            "counted": self.counted,
        }
        if self._weighting is not None:
            result |= {
                "weight": self._states.weight,
                "tracked": self.tracked,
                "mean_weight": np.array(self._mean),
                "tracked_weights": np.array(self._tracked).reshape(-1, len(self.tracked)),
            }
        return result

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs."""
        state: dict[str, Any] = {
            "participated": self.participated,
            "counted": self.counted,
            "reported": list(self.reported),
        }
        if self._weighting is not None:
            names = ("round", "intervals", "elapsed", "weight")
            state["states"] = {name: getattr(self._states, name) for name in names}
            state["mean"] = np.array(self._mean)
            state["tracked"] = np.array(self._tracked).reshape(-1, len(self.tracked))
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint."""
        self.participated = state["participated"]
        self.counted = state["counted"]
        self.reported = tuple(state["reported"])
        if self._weighting is not None:
            self._states = WeightStates(**state["states"])
            self._mean = state["mean"].tolist()
            self._tracked = list(state["tracked"])


def _representative(probabilities: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return some clients of the largest, of median and of the smallest probabilities."""
    order = np.argsort(-probabilities, kind="stable")
    middle = len(order) // 2
    kinds = (order[:TRACKED_PER_KIND], order[middle : middle + TRACKED_PER_KIND])
    return np.unique(np.concatenate([*kinds, order[-TRACKED_PER_KIND:]]))
