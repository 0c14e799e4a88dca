"""Where the programs are that were installed with this Python."""

from __future__ import annotations

import sys
from pathlib import Path


def program(name: str) -> str:
    """Return the program beside this Python, also where its environment is not activated."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else name
