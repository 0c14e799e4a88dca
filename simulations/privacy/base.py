"""What privacy is to the suite."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fedau_flwr.client.separation import Separation
from simulations.methods import Method
from simulations.registry import Entry


@dataclass(frozen=True)
class Privacy(Entry):
    """A way to keep sums private; a subclass is a frozen dataclass with its parameters."""

    key = "privacy"

    private: ClassVar[bool] = True
    """Whether it keeps anything private at all."""

    on_secure_sums: ClassVar[bool] = True
    """Whether sums can be secure as well."""

    keeps_releases: ClassVar[bool] = False
    """Whether a resumed run goes on after its last sum, not after its last checkpoint."""

    @property
    def apart(self) -> Separation:
        """How often a client takes part at most."""
        limit = getattr(self, "participations", 0) or None
        return Separation(getattr(self, "separation", 1), limit)

    def relations(self, method: Method, *, secure: bool) -> Iterator[tuple[str, bool, str]]:
        """Give keys of a run whose values have to fit, whether they do, and the rule."""
        yield ("privacy", not self.private or method.participates,
               f"none for {method.name}, whose clients send more than what is summed")  # fmt: skip
        yield ("privacy", self.on_secure_sums or not secure,
               "none or gaussian with secure-sum: there the noise comes from the clients and "
               "cannot be correlated over rounds")  # fmt: skip
        weighting, b, better = method.learned_weighting(), self.apart.rounds, self.apart.cutoff
        cutoff = getattr(weighting, "cutoff", None)
        yield ("method", b == 1 or cutoff is None or cutoff > b,
               f"one with a cutoff above {b}, the separation of a client's rounds, and better "
               f"{better}: {method.name}:{better}")  # fmt: skip

    @abstractmethod
    def settings(self, rounds: int, directory: Path | None) -> Any:
        """Return the option ``privacy`` of a strategy for so many rounds.

        What must outlast a crash is kept in `directory`, that of the run.
        """


@dataclass(frozen=True)
class NoPrivacy(Privacy):
    """No clipping and no noise."""

    name = "none"
    place = 1
    private = False

    def settings(self, rounds: int, directory: Path | None) -> None:
        """Return nothing."""
