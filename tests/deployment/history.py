"""What a training must have computed, from the record of who was counted: the numpy loop."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedau_flwr.client.state_directory import read_versions
from fedau_flwr.client.store import Version
from tests.deployment.app.quadratics import problem

CUTOFF = 3


def weight(participation: list[bool]) -> float:
    """Algorithm 2 of the paper, word by word, over the rounds before the one to weight."""
    intervals, elapsed, average = 0, 0, 1.0
    for participated in participation:
        elapsed += 1
        if participated or elapsed == CUTOFF:
            average = (intervals * average + elapsed) / (intervals + 1) if intervals else elapsed
            intervals += 1
            elapsed = 0
    return float(average)


@dataclass
class History:
    """Rounds that are in the model, in order, each with the clients that were counted in it."""

    counted: list[list[int]]

    @classmethod
    def read(cls, directory: Path, clients: dict[int, int]) -> "History":
        """Read a server's record; a later attempt replaces the rounds that it ran again."""
        rounds: dict[int, list[int]] = {}
        for line in (directory / "rounds.jsonl").read_text().splitlines():
            entry = json.loads(line)
            rounds = {number: who for number, who in rounds.items() if number < entry["round"]}
            rounds[entry["round"]] = sorted(clients[node] for node in entry["counted"])
        assert list(rounds) == list(range(1, len(rounds) + 1))
        return cls(list(rounds.values()))

    def participation(self, client: int, before: int) -> list[bool]:
        """Return whether ``client`` was counted, for every round before ``before``."""
        return [client in counted for counted in self.counted[: before - 1]]

    def model(self, clients: int, *, forgot: dict[int, list[bool]] | None = None) -> NDArray:
        """Return the model after the last round.

        ``forgot`` holds what a client that lost its state takes its first rounds to have been.
        """
        model = problem.initial_model()
        for number, counted in enumerate(self.counted, start=1):
            total = np.zeros_like(model)
            for client in counted:
                past = self.participation(client, number)
                known = (forgot or {}).get(client, [])
                if len(past) >= len(known):
                    past = known + past[len(known) :]
                update = problem.train(model, client, step_size=0.1, steps=3) - model
                total += np.float32(weight(past)) * update
            model = model + total / np.float32(clients)
        return model


def first_attempt(directory: Path, number: int) -> dict[str, Any]:
    """Return a server's record of a round, as it went the first time."""
    lines = (directory / "rounds.jsonl").read_text().splitlines()
    return next(entry for entry in map(json.loads, lines) if entry["round"] == number)


def last_version(state_directory: Path) -> Version:
    """Return what a client stored when it last sent something."""
    (path,) = state_directory.glob("*/*/state.json")
    return read_versions(path.parent)[-1]
