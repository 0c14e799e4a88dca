import numpy as np
import pytest

from simulations.registry import ConfigError
from simulations.tasks import DataError
from simulations.tasks.synthetic import Synthetic, chunks


def make(seed=1, part="train", count=5_000):
    parts = list(chunks(seed=seed, part=part, count=count, num_classes=10))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def coarse(images):
    """Return images averaged over 8 x 8 pixels, as vectors."""
    return images.reshape(-1, 4, 8, 4, 8, 3).mean(axis=(2, 4)).reshape(len(images), -1)


def test_shape_and_balance():
    images, labels = make(count=5_001)
    assert images.shape == (5_001, 32, 32, 3)
    assert images.dtype == np.uint8
    assert np.bincount(labels).min() > 400
    assert 120 < images.mean() < 136
    assert ((images == 0) | (images == 255)).mean() < 0.01


def test_the_seed_decides_and_parts_differ():
    images, labels = make(count=100)
    again, same_labels = make(count=100)
    np.testing.assert_array_equal(images, again)
    np.testing.assert_array_equal(labels, same_labels)
    assert not np.array_equal(images, make(part="test", count=100)[0])
    assert not np.array_equal(images, make(seed=2, count=100)[0])


def test_classes_are_learnable_overlap_and_have_two_modes():
    """The Gaussian classifier of one mode per class is well above chance, well below certainty."""
    images, labels = make(count=20_000)
    unseen, answers = make(part="test")
    x, z = coarse(images), coarse(unseen)
    means = np.stack([x[labels == c].mean(axis=0) for c in range(10)])
    whiten = np.linalg.inv(np.cov((x - means[labels]).T) + 1e-3 * np.eye(x.shape[1]))
    distances = np.stack([np.einsum("ij,jk,ik->i", z - m, whiten, z - m) for m in means])
    accuracy = (distances.argmin(axis=0) == answers).mean()
    assert 0.3 < accuracy < 0.7


def test_files_are_made_when_first_opened_and_then_kept(tmp_path):
    task = Synthetic(train=5_000, test=100)
    arrays = task.open(tmp_path, seed=3)
    path = task.folder(tmp_path, seed=3) / "train-images.npy"
    made = path.stat().st_mtime_ns
    again = task.open(tmp_path, seed=3)
    assert path.stat().st_mtime_ns == made
    np.testing.assert_array_equal(arrays.train.inputs, again.train.inputs)
    other = task.open(tmp_path, seed=4)
    assert not np.array_equal(arrays.train.inputs, other.train.inputs)
    with pytest.raises(DataError, match=r"--from is .*, but the synthetic set is made from a seed"):
        task.prepare(tmp_path, source=tmp_path)


def test_every_class_needs_a_sample():
    with pytest.raises(
        ConfigError, match="test of dataset synthetic is 9, but must be at least 10"
    ):
        Synthetic(train=100, test=9)
