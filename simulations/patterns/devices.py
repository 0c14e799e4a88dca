"""Participation of real devices, recorded in seconds: a round has a length."""

from dataclasses import dataclass
from pathlib import Path

from fedau_flwr.availability import Process, read_events, read_fedscale, read_flash
from simulations.patterns.base import Pattern, Probabilities
from simulations.patterns.observed import check_path, readable
from simulations.registry import check


@dataclass(frozen=True)
class Events(Pattern):
    """On and off at seconds, in a .csv file (absolute path) of client, time and state."""

    file: str
    round_seconds: float = 600.0

    place = 11
    recorded = True

    def __post_init__(self) -> None:
        check_path(self.name, self.file)
        rule, head = "above 0", f"round_seconds of pattern {self.name}"
        check(head, self.round_seconds, self.round_seconds > 0, rule)

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return what the file says, over and over again."""
        with readable(self.name, self.file) as path:
            return self.read(path, clients=len(p), seed=seed)

    def read(self, path: Path, *, clients: int, seed: int) -> Process:
        """Read the file; clients that it does not name never come."""
        return read_events(path, round_seconds=self.round_seconds, clients=clients)


@dataclass(frozen=True)
class FedScale(Events):
    """The devices of FedScale's client_behave_trace; the seed says which client has which."""

    name = "fedscale"
    place = 12

    def read(self, path: Path, *, clients: int, seed: int) -> Process:
        """Read the file."""
        return read_fedscale(path, round_seconds=self.round_seconds, clients=clients, seed=seed)


@dataclass(frozen=True)
class Flash(Events):
    """The devices of FLASH's state_traces.json; the seed says which client has which."""

    place = 13

    def read(self, path: Path, *, clients: int, seed: int) -> Process:
        """Read the file."""
        return read_flash(path, round_seconds=self.round_seconds, clients=clients, seed=seed)
