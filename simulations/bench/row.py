"""A row of the table: a number, the goal beside it, and where the time went if it was missed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Row:
    """One measured number.

    Parameters
    ----------
    key : str
        Its name in the JSON file.
    text : str
        What it is.
    value : float
        The number.
    side : str
        Whether the goal is a number that it must be "at most" or "at least".
    goal : float
        That number.
    unit : str
        Empty for a ratio.
    details : dict
        What it was computed from.
    profile : dict
        Where the time goes, in milliseconds.
    note : str
        A sentence below the table.
    """

    key: str
    text: str
    value: float
    side: Literal["at most", "at least"]
    goal: float
    unit: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    profile: dict[str, Any] = field(default_factory=dict)
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return self.value <= self.goal if self.side == "at most" else self.value >= self.goal

    def to_dict(self) -> dict[str, Any]:
        """Return the row for the JSON file."""
        row = {
            "key": self.key,
            "text": self.text,
            "value": self.value,
            "unit": self.unit or "ratio",
            "goal": f"{self.side} {self.goal:g}",
            "met": self.met,
            "details": self.details,
        }
        return row | ({"profile-milliseconds": self.profile} if self.profile else {})
