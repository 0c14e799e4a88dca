"""Participation that nobody draws: recorded in a file, or that of a deployment."""

from dataclasses import dataclass
from pathlib import Path

from fedau_flwr.availability import Process, Trace
from simulations.patterns.base import Pattern, Probabilities
from simulations.registry import check, wrong


@dataclass(frozen=True)
class TracePattern(Pattern):
    """As in a .csv or .npy file (absolute path), which begins again after its last round."""

    file: str

    name = "trace"
    place = 5

    def __post_init__(self) -> None:
        absolute = Path(self.file).expanduser().is_absolute()
        check("file of pattern trace", self.file, absolute, "an absolute path")

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return what the file says; clients that it does not know never come."""
        try:
            return Trace(Path(self.file).expanduser(), clients=len(p), repeat=True)
        except OSError as error:
            rule = f"a file that can be read ({error.strerror})"
            raise wrong("file of pattern trace", self.file, rule) from None


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
