"""The nodes of a deployment as its server knows them: who came, who was counted, and why not."""

import json
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedau_flwr.files import save_text
from fedau_flwr.server.callbacks import Callback
from fedau_flwr.server.loop import RoundLoop
from fedau_flwr.server.report import RoundReport
from fedau_flwr.weight_state import WeightState
from simulations.config import RunConfig
from simulations.runs.directory import RunDirectory
from simulations.runs.raster import RasterFile, states_of

FILE_SECONDS = 1.0


class NodeRecord(Callback):
    """Keeps raster.bin and nodes.json, the latter replaced every second at most.

    nodes.json has ``round`` and ``nodes``, an object for each node in the order in which they were
    first asked, which is also their order in the raster: ``id``, ``first`` (round in which it was
    first asked), ``counted`` (rounds), ``last`` (counted round, 0: none), ``weight`` (ω of the next
    round as far as it follows from being counted, where the method has one), ``rejected`` (rounds),
    ``reason`` and ``rejected_in`` of the last reply that was rejected.
    """

    in_checkpoints = ("nodes",)

    def __init__(self, run: RunDirectory, config: RunConfig) -> None:
        self._run = run
        self._weighting = config.algorithm.learned_weighting()
        self._raster = RasterFile(run.raster_file, config.clients)
        self._saved = 0.0
        self.nodes: dict[int, dict[str, Any]] = {}
        """By node id; with ``state``, what its weight follows from."""

    def on_start(self, loop: RoundLoop) -> None:
        """Begin, or go on from where a resumed run does."""
        self._raster.begin(loop.round)

    def after_round(self, loop: RoundLoop, report: RoundReport) -> None:
        """Note what became of every node that was asked."""
        known = {*report.nodes, *report.clients, *report.reasons}
        for node in sorted(known - self.nodes.keys()):
            self.nodes[node] = {"first": report.round, "counted": 0, "last": 0, "rejected": 0}
        for node in report.clients:
            self._count(self.nodes[node], report.round)
        for node, reason in report.reasons.items():
            entry = self.nodes[node]
            entry |= {"reason": reason, "rejected_in": report.round}
            entry["rejected"] += 1
        self._draw(report)

    def _count(self, entry: dict[str, Any], number: int) -> None:
        entry["counted"] += 1
        entry["last"] = number
        if self._weighting is not None:
            # Everybody's history begins with the training, and not being asked is absence.
            state = WeightState(*entry.get("state", ()))
            state = self._weighting.skip(state, number - 1 - state.round)
            state = self._weighting.advance(state, participated=True)
            entry["state"] = [state.round, state.intervals, state.elapsed, state.weight]

    def _draw(self, report: RoundReport) -> None:
        if len(self.nodes) > self._raster.clients:
            self._raster.widen(2 * len(self.nodes))
        row = {node: place for place, node in enumerate(self.nodes)}
        came = np.array([row[node] for node in report.nodes], np.int64)
        rejected, counted = ([row[n] for n in some] for some in (report.reasons, report.clients))
        clients = self._raster.clients
        self._raster.append(states_of(clients, came=came, rejected=rejected, counted=counted))

    def round_done(self, loop: RoundLoop, report: RoundReport) -> None:
        """Write the file if the last one is a second old."""
        if time.monotonic() - self._saved >= FILE_SECONDS:
            self._save(loop.round)

    def on_end(self, loop: RoundLoop) -> None:
        """Write it a last time."""
        self._save(loop.round)

    def _save(self, number: int) -> None:
        self._saved = time.monotonic()
        nodes = [self._shown(node, entry, number) for node, entry in self.nodes.items()]
        save_text(self._run.nodes_file, json.dumps({"round": number, "nodes": nodes}))

    def _shown(self, node: int, entry: Mapping[str, Any], number: int) -> dict[str, Any]:
        # A node id has 64 bits, of which a browser's numbers would keep 53.
        shown = {"id": str(node), **{key: entry[key] for key in entry if key != "state"}}
        if self._weighting is not None:
            state = WeightState(*entry.get("state", ()))
            shown["weight"] = self._weighting.skip(state, number - state.round).weight
        return shown
