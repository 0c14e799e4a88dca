"""Builds the array files of a public data set, out of a download or of files already there."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from simulations.tasks.arrays import PARTS, DataError, staged
from simulations.tasks.images.sources import Labels
from simulations.tasks.images.task import ImageTask, check_part, part_files


def prepare(task: ImageTask, data_dir: Path, *, source: Path | None = None) -> Path:
    """Write the array files of a task under ``data_dir`` and return their folder.

    ``source`` is a folder (or archive) with the official files; without it they are downloaded.
    `DataError` says what is missing, cannot be fetched, or is not what it should be.
    """
    try:
        if source is not None:
            return _prepare_from(task, data_dir, source, download=False)
        data_dir.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".download-", dir=data_dir) as scratch:
            return _prepare_from(task, data_dir, Path(scratch), download=True)
    except OSError as error:
        raise DataError(f"data-dir {data_dir} cannot be written: {error}.") from error


def _prepare_from(task: ImageTask, data_dir: Path, given: Path, *, download: bool) -> Path:
    source = task.source
    by_hand = (
        f"fetch {source.address} on a machine with network access and run "
        f"`fedau data prepare {task.name} --from FOLDER` on the folder with {source.files}"
    )
    if download and not source.downloads:
        raise DataError(f"{task.title} cannot be downloaded by this program: {by_hand}.")
    folder = task.folder(data_dir)
    origin = "the download" if download else str(given)
    with source.located(given) as root, staged(folder) as staging:
        for part in PARTS:
            try:
                images, labels = source.read(part, root, download)
            except (OSError, RuntimeError) as error:
                reason = str(error).split("\n", 1)[0].split(". ", 1)[0].rstrip(".")
                raise DataError(
                    f"{task.title} could not be downloaded ({reason}): {by_hand}."
                    if download
                    else f"{given} does not hold {source.files} of {task.title} as published "
                    f"({reason}); they are at {source.address}."
                ) from error
            check_part(task, part, images, labels, count=task.count(part), where=origin)
            _check_classes(task, part, labels, origin)
            to_images, to_labels = part_files(staging, part)
            np.save(to_images, images)
            np.save(to_labels, labels)
    return folder


def _check_classes(task: ImageTask, part: str, labels: Labels, where: str) -> None:
    """Raise ``DataError`` unless every class occurs."""
    missing = np.setdiff1d(np.arange(task.num_classes), labels)
    if len(missing):
        raise DataError(
            f"{where}: the {part} set of {task.title} has no sample of class "
            f"{', '.join(task.classes[c] for c in missing[:5])}."
        )
