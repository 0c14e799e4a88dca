"""What privacy is to the suite."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedau_flwr.client.separation import Separation
from simulations.registry import Entry


@dataclass(frozen=True)
class Privacy(Entry):
    """A way to keep sums private; a subclass is a frozen dataclass with its parameters."""

    @property
    def apart(self) -> Separation:
        """How often a client takes part at most."""
        return Separation(
            getattr(self, "separation", 1), getattr(self, "participations", 0) or None
        )

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

    def settings(self, rounds: int, directory: Path | None) -> None:
        """Return nothing."""
