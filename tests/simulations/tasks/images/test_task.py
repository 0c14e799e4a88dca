import numpy as np
import pytest

from simulations.tasks import DataError
from simulations.tasks.arrays import staged
from simulations.tasks.cifar10 import CIFAR10
from tests.simulations.tasks.changed import changed as task_with

TASK = task_with(CIFAR10, train_count=20, test_count=10)


def write(folder, **changed):
    arrays = {}
    for part in ("train", "test"):
        n = TASK.count(part)
        arrays[f"{part}-images"] = np.zeros((n, 32, 32, 3), np.uint8)
        arrays[f"{part}-labels"] = np.arange(n) % 10
    arrays |= {name.replace("_", "-"): value for name, value in changed.items()}
    folder.mkdir(exist_ok=True)
    for name, value in arrays.items():
        np.save(folder / f"{name}.npy", value)


def test_images_are_mapped_not_read(tmp_path):
    write(tmp_path / "cifar10")
    arrays = TASK.open(tmp_path, seed=1)
    assert isinstance(arrays.train.inputs, np.memmap)
    assert (len(arrays.train), len(arrays.test)) == (20, 10)
    np.testing.assert_array_equal(arrays.test.targets, np.arange(10))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"train_images": np.zeros((20, 32, 32, 3), np.float32)},
            r"the train images of CIFAR-10 must be uint8 \[20, 32, 32, 3\], but are float32",
        ),
        (
            {"test_images": np.zeros((10, 3, 32, 32), np.uint8)},
            r"must be uint8 \[10, 32, 32, 3\], but are uint8 \[10, 3, 32, 32\]\.$",
        ),
        (
            {"train_labels": np.zeros(19, np.int64)},
            r"the train labels of CIFAR-10 must be int64 \[20\], but are int64 \[19\]\.$",
        ),
        (
            {"test_labels": np.arange(10) + 1},
            r"the test labels of CIFAR-10 must be within 0 to 9, but reach from 1 to 10\.$",
        ),
    ],
)
def test_wrong_arrays_are_named(tmp_path, changed, sentence):
    write(tmp_path / "cifar10", **changed)
    with pytest.raises(DataError, match=sentence):
        TASK.open(tmp_path, seed=1)


def test_a_missing_folder_says_what_to_run(tmp_path):
    with pytest.raises(DataError, match=r"fedau data prepare cifar10 --data-dir .* first\.$"):
        TASK.open(tmp_path, seed=1)


def test_a_cut_off_file_is_refused(tmp_path):
    write(tmp_path / "cifar10")
    path = tmp_path / "cifar10" / "train-images.npy"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"train-images.npy cannot be read as an array file"):
        TASK.open(tmp_path, seed=1)


def test_nothing_appears_unless_the_whole_block_succeeded(tmp_path):
    def fail(folder):
        with staged(folder) as staging:
            (staging / "train-images.npy").write_bytes(b"half")
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        fail(tmp_path / "data" / "cifar10")
    assert list((tmp_path / "data").iterdir()) == []
    with staged(tmp_path / "data" / "cifar10") as staging:
        (staging / "train-images.npy").write_bytes(b"whole")
    assert [p.name for p in (tmp_path / "data").iterdir()] == ["cifar10"]
    assert (tmp_path / "data" / "cifar10" / "train-images.npy").read_bytes() == b"whole"
