"""Participation that nobody draws: recorded in a file, or that of a deployment."""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path

from fedau_flwr.availability import Process, Trace, read_events, read_fedscale, read_flash
from simulations.patterns.base import Pattern, Probabilities
from simulations.registry import parameter, wrong


@dataclass(frozen=True)
class Recorded(Pattern):
    """What a file says, over and over again; its path must not depend on where one is."""

    file: str = parameter("an absolute path", lambda v: Path(v).expanduser().is_absolute())

    recorded = True

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return what the file says."""
        try:
            return self.read(Path(self.file).expanduser(), clients=len(p), seed=seed)
        except OSError as error:
            rule = f"a file that can be read ({error.strerror})"
            raise wrong(f"file of pattern {self.name}", self.file, rule) from None

    @abstractmethod
    def read(self, path: Path, *, clients: int, seed: int) -> Process:
        """Read the file."""


@dataclass(frozen=True)
class TracePattern(Recorded):
    """As in a .csv or .npy file (absolute path), which begins again after its last round."""

    name = "trace"
    place = 5

    def read(self, path: Path, *, clients: int, seed: int) -> Process:
        """Read the file; clients that it does not know never come."""
        return Trace(path, clients=clients, repeat=True)


@dataclass(frozen=True)
class Events(Recorded):
    """On and off at seconds, in a .csv file (absolute path) of client, time and state."""

    round_seconds: float = parameter("above 0", lambda v: v > 0, 600.0)

    place = 11

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


@dataclass(frozen=True)
class DeploymentPattern(Pattern):
    """The SuperNodes of a deployment, which come and go as they do."""

    name = "deployment"
    place = 9
    simulated = False

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Refuse: there is nothing to simulate."""
        rule = "another one in a simulation: `fedau deploy local` and `flwr run` on a deployment"
        raise wrong("pattern", self.name, f"{rule} have real participation")
