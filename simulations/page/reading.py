"""A run's files as far as they can be read: what cannot is left out, and a sentence says so."""

import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulations.config import ConfigError, RunConfig
from simulations.runs.directory import RunDirectory

_ROUND = "round"


class Reader:
    """Reads files of one run below `root`; `problems` are the sentences about what it could not.

    It leads nowhere else: a link to a place outside of `root` is not followed.
    """

    def __init__(self, run: RunDirectory, root: Path) -> None:
        self._run = run
        self._root = root.resolve()
        self.problems: list[str] = []

    def config(self) -> RunConfig | None:
        """Return the settings."""
        if not self._readable(self._run.config_file):
            return None
        try:
            return self._run.config()
        except ConfigError as error:
            self.say(str(error))
        except Exception as error:  # a method of one's own can fail in any way
            self.say(f"config.toml cannot be used: {type(error).__name__}: {error}.")
        return None

    def text(self, path: Path) -> dict[str, Any]:
        """Return a JSON object, an empty one if there is none."""
        if not self._readable(path):
            return {}
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            content = None
        if isinstance(content, dict):
            return content
        self.say(f"{path.name} is not a JSON object.")
        return {}

    def lines(self, path: Path) -> list[dict[str, Any]]:
        """Return the objects of a file with one per line, in the order of their rounds."""
        if not self._readable(path):
            return []
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            self.say(f"{path.name} cannot be read ({error.strerror or error}).")
            return []
        *whole, _ = text.split("\n")  # the last line may still be in the writing
        found, broken = {}, []
        for number, line in enumerate(whole, 1):
            entry = _entry(line)
            if entry is None:
                broken.append(number)
            else:
                found[entry[_ROUND]] = entry
        if broken:
            more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
            self.say(f"{path.name}: line {broken[0]}{more} is left out, it is no report.")
        return [found[number] for number in sorted(found)]

    def arrays(self, path: Path) -> dict[str, NDArray[Any]]:
        """Return the arrays of an .npz file, none if there is no such file."""
        if not self._readable(path):
            return {}
        try:
            with np.load(path, allow_pickle=False) as file:
                return {key: file[key] for key in file.files}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            self.say(f"{path.name} cannot be read.")
            return {}

    def _readable(self, path: Path) -> bool:
        if not path.exists():
            return False
        if path.resolve().is_relative_to(self._root):
            return True
        self.say(f"{path.name} is a link to another place, which is not followed.")
        return False

    def say(self, sentence: str) -> None:
        """Add a sentence, unless it was said already."""
        if sentence not in self.problems:
            self.problems.append(sentence)


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or type(entry.get(_ROUND)) is not int:
        return None
    return entry


def number_or_none(value: Any) -> float | None:
    """Return a finite number, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value
