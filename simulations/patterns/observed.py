"""Participation that nobody draws: recorded in a file, or that of a deployment."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedau_flwr.availability import Process, Trace
from simulations.patterns.base import Pattern, Probabilities
from simulations.registry import check, wrong


def check_path(name: str, file: str) -> None:
    """Refuse the path of a file that depends on where a program was started."""
    absolute = Path(file).expanduser().is_absolute()
    check(f"file of pattern {name}", file, absolute, "an absolute path")


@contextmanager
def readable(name: str, file: str) -> Iterator[Path]:
    """Provide the path of a file, and turn an error in reading it into a sentence."""
    try:
        yield Path(file).expanduser()
    except OSError as error:
        rule = f"a file that can be read ({error.strerror})"
        raise wrong(f"file of pattern {name}", file, rule) from None


@dataclass(frozen=True)
class TracePattern(Pattern):
    """As in a .csv or .npy file (absolute path), which begins again after its last round."""

    file: str

    name = "trace"
    place = 5
    recorded = True

    def __post_init__(self) -> None:
        check_path(self.name, self.file)

    def process(self, p: Probabilities, *, seed: int, rounds: int) -> Process:
        """Return what the file says; clients that it does not know never come."""
        with readable(self.name, self.file) as path:
            return Trace(path, clients=len(p), repeat=True)


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
