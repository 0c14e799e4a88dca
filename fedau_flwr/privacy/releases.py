"""Noisy sums on the disk, so that none is released twice.

A sum is written before the model that contains it can leave the server. A training that is resumed
from an older checkpoint takes these rounds from here instead of asking again: the same noise on
another sum would give their difference away, and fresh noise on the same one would average out.

``DIR/round-000017.npz`` has the noisy sum, its noise, who was in it and who was asked; a round
without a sum has the last alone. Files up to the last checkpoint are removed but for the newest,
which says how far the training has come. Who reads them can take the noise off: they are for the
server alone, like the sums themselves.
"""

import json
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..arrays import Arrays
from ..files import save_arrays, sync_directory
from ..wire.parts import Parts

_SUM, _NOISE, _ABOUT = "sum", "noise", "about"


@dataclass(frozen=True, eq=False)
class Release:
    """What a round released, whom the server had asked, and the attempts that had led to it."""

    asked: list[int]
    attempts: list[tuple[int, int]]
    clients: list[int] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    parts: Parts | None = None
    noise: NDArray[np.int32] | None = None


class Releases:
    """The releases of one training in a directory of their own, which no other one may share."""

    def __init__(self, directory: Path, training: str) -> None:
        self._directory = directory
        self._training = training
        self._numbers = sorted(_numbers(directory))

    @property
    def last(self) -> int:
        """The last round that is here, 0 if none is."""
        return self._numbers[-1] if self._numbers else 0

    def begin(self) -> None:
        """Make the directory, for its owner alone; one with releases of another is refused."""
        if self._numbers:
            raise self._wrong("be empty, or that of the training that is resumed")
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync_directory(self._directory.parent)
        except OSError as error:
            raise self._unwritable(error) from None

    def resume(self, server_round: int) -> None:
        """Refuse a checkpoint of `server_round` that does not fit what is here."""
        if self.last < server_round:
            raise self._wrong(f"hold what was released up to round {server_round}")
        missing = set(range(server_round + 1, self.last + 1)) - set(self._numbers)
        if missing:
            raise self._wrong(
                f"hold round {min(missing)}, which was released after the checkpoint of round "
                f"{server_round}: go on from a later checkpoint, for no sum is released twice"
            )
        if self.last:
            self.read(self.last)

    def write(self, server_round: int, release: Release) -> None:
        """Make a release durable."""
        # numpy has names of its own for arguments, hence the prefix.
        flat = flattened(release.parts or {})
        arrays: Arrays = {f"{_SUM}/{name}": value for name, value in flat.items()}
        about = {key: v for key, v in vars(release).items() if key not in ("parts", "noise")}
        arrays[_ABOUT] = np.array(json.dumps({"training": self._training, **about}))
        if release.noise is not None:
            arrays[_NOISE] = release.noise
        try:
            save_arrays(self._path(server_round), arrays, durable=True)
        except OSError as error:
            raise self._unwritable(error) from None
        self._numbers.append(server_round)

    def read(self, server_round: int) -> Release:
        """Return a release; one that is damaged or of another training is refused."""
        path = self._path(server_round)
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {key: file[key] for key in file.files}
            about = json.loads(str(arrays.pop(_ABOUT)))
            training = about.pop("training")
            noise = arrays.pop(_NOISE, None)
            sums = {key.removeprefix(f"{_SUM}/"): value for key, value in arrays.items()}
            about["attempts"] = [(number, start) for number, start in about["attempts"]]
            release = Release(**about, parts=nested(sums) or None, noise=noise)
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"The release {path} cannot be read: {error}.") from None
        if training != self._training:
            raise self._wrong("be that of the training that is resumed")
        return release

    def prune(self, server_round: int) -> None:
        """Remove what no checkpoint from `server_round` on needs, but for the newest."""
        old = [number for number in self._numbers[:-1] if number <= server_round]
        for number in old:
            self._path(number).unlink(missing_ok=True)
        self._numbers = self._numbers[len(old) :]

    def _path(self, server_round: int) -> Path:
        return self._directory / f"round-{server_round:06d}.npz"

    def _wrong(self, rule: str) -> ValueError:
        return ValueError(f"releases is {str(self._directory)!r}, but must {rule}.")

    def _unwritable(self, error: OSError) -> ValueError:
        return self._wrong(f"be a directory that can be written to ({error.strerror or error})")


def flattened(parts: Parts) -> Arrays:
    """Return the arrays of all parts by one name each."""
    return {f"{part}/{n}": value for part, some in parts.items() for n, value in some.items()}


def nested(arrays: Arrays) -> Parts:
    """Undo `flattened`."""
    parts: Parts = {}
    for key, value in arrays.items():
        part, name = key.split("/", 1)
        parts.setdefault(part, {})[name] = value
    return parts


def _numbers(directory: Path) -> Iterable[int]:
    if directory.is_dir():
        for path in directory.iterdir():
            if found := re.fullmatch(r"round-(\d{6,})\.npz", path.name):
                yield int(found[1])
