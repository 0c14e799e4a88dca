"""Builds the array files of a data set, out of a download, of files already there, or of a seed."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from . import synthetic
from .arrays import PARTS, Arrays, check_classes, check_part, open_folder, staged
from .spec import IMAGE_SHAPE, DataError, DatasetSpec


def prepare(
    spec: DatasetSpec, data_dir: Path, *, source: Path | None = None, seed: int = 1
) -> Path:
    """Write the array files of ``spec`` under ``data_dir`` and return their folder.

    Parameters
    ----------
    source : Path | None
        Folder (or archive) with the official files. Without it they are downloaded.
    seed : int
        What the synthetic set is made from; the others have no randomness.

    Raises
    ------
    DataError
        If files are missing, cannot be fetched, or are not what they should be.
    """
    try:
        if spec.name == "synthetic":
            if source is not None:
                raise DataError(f"--from is {source}, but the synthetic set is made from a seed.")
            return _prepare_synthetic(spec, data_dir, seed)
        if source is not None:
            return _prepare_from(spec, data_dir, source, download=False)
        data_dir.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".download-", dir=data_dir) as scratch:
            return _prepare_from(spec, data_dir, Path(scratch), download=True)
    except OSError as error:
        raise DataError(f"data-dir {data_dir} cannot be written: {error}.") from error


def folder_of(spec: DatasetSpec, data_dir: Path, *, seed: int = 1) -> Path:
    """Return where the array files are; synthetic sets differ by seed and size, so they nest."""
    if spec.name != "synthetic":
        return data_dir / spec.name
    return data_dir / spec.name / f"seed{seed}-{spec.train_count}-{spec.test_count}"


def open_arrays(spec: DatasetSpec, data_dir: Path, *, seed: int = 1) -> Arrays:
    """Map the arrays of a data set; the synthetic one is made first if it is not there yet."""
    folder = folder_of(spec, data_dir, seed=seed)
    if spec.name == "synthetic" and not _complete(folder):
        prepare(spec, data_dir, seed=seed)
    return open_folder(spec, folder)


def resized(spec: DatasetSpec, *, train_count: int, test_count: int) -> DatasetSpec:
    """Return the synthetic data set with other numbers of samples."""
    if spec.name != "synthetic":
        raise DataError(f"only the synthetic data set can have another size, not {spec.title}.")
    for key, value in (("train-samples", train_count), ("test-samples", test_count)):
        if value < spec.num_classes:
            raise DataError(f"{key} is {value}, but must be at least {spec.num_classes}.")
    return replace(spec, train_count=train_count, test_count=test_count)


def _complete(folder: Path) -> bool:
    names = [f"{part}-{kind}.npy" for part in PARTS for kind in ("images", "labels")]
    return all((folder / name).is_file() for name in names)


def _prepare_synthetic(spec: DatasetSpec, data_dir: Path, seed: int) -> Path:
    folder = folder_of(spec, data_dir, seed=seed)
    with staged(folder) as staging:
        for part in PARTS:
            count = spec.count(part)
            images = np.lib.format.open_memmap(
                staging / f"{part}-images.npy", "w+", np.uint8, (count, *IMAGE_SHAPE)
            )
            labels = np.empty(count, dtype=np.int64)
            start = 0
            for some_images, some_labels in synthetic.chunks(
                seed=seed, part=part, count=count, num_classes=spec.num_classes
            ):
                stop = start + len(some_labels)
                images[start:stop], labels[start:stop] = some_images, some_labels
                start = stop
            images.flush()
            np.save(staging / f"{part}-labels.npy", labels)
    return folder


def _prepare_from(spec: DatasetSpec, data_dir: Path, given: Path, *, download: bool) -> Path:
    from .sources import SOURCES  # noqa: PLC0415 -- torchvision takes seconds, training needs none

    source = SOURCES[spec.name]
    where = " and ".join(source.addresses)
    by_hand = (
        f"fetch {where} on a machine with network access and run "
        f"`fedau data prepare {spec.name} --from FOLDER` on the folder with {source.files}"
    )
    if download and not source.downloads:
        raise DataError(f"{spec.title} cannot be downloaded by this program: {by_hand}.")
    folder = folder_of(spec, data_dir)
    origin = "the download" if download else str(given)
    with source.located(given) as root, staged(folder) as staging:
        for part in PARTS:
            try:
                images, labels = source.read(spec, part, root, download)
            except DataError:
                raise
            except (OSError, RuntimeError) as error:
                reason = str(error).split("\n", 1)[0].split(". ", 1)[0].rstrip(".")
                if download:
                    raise DataError(
                        f"{spec.title} could not be downloaded ({reason}): {by_hand}."
                    ) from error
                raise DataError(
                    f"{given} does not hold {source.files} of {spec.title} as published "
                    f"({reason}); they are at {where}."
                ) from error
            check_part(spec, part, images, labels, origin)
            check_classes(spec, part, labels, origin)
            np.save(staging / f"{part}-images.npy", images)
            np.save(staging / f"{part}-labels.npy", labels)
    return folder
