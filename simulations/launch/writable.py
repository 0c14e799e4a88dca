"""Where results may go."""

from __future__ import annotations

import os
from pathlib import Path

from simulations.config import ConfigError


def check_writable(key: str, directory: Path) -> None:
    """Refuse a directory that cannot be made or written to; nothing is made yet."""
    there = next(path for path in (directory, *directory.parents) if path.exists())
    reason = None
    if not there.is_dir():
        reason = f"{there} is no directory"
    elif not os.access(there, os.W_OK | os.X_OK):
        reason = f"{there} is not writable"
    if reason:
        raise ConfigError(
            f"{key} is {str(directory)!r}, but must be a directory that can be written to "
            f"({reason})."
        )
