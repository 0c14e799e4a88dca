import hashlib
import pickle
import tarfile
from importlib.util import module_from_spec, spec_from_file_location
from urllib.error import URLError

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from simulations.tasks import DataError
from simulations.tasks.cifar10 import CIFAR10
from simulations.tasks.cifar100 import CIFAR100
from simulations.tasks.cinic10 import CINIC10
from simulations.tasks.svhn import SVHN
from tests.simulations.shared import shared_data
from tests.simulations.tasks.changed import changed

CIFAR10_FORMAT = {
    "kind": "CIFAR10",
    "meta": ("batches.meta", "label_names"),
    "label_key": "labels",
}
CIFAR100_FORMAT = {
    "kind": "CIFAR100",
    "meta": ("meta", "fine_label_names"),
    "label_key": "fine_labels",
}
RNG = np.random.default_rng(0)


def prepare(task, data_dir, source=None):
    return task.prepare(data_dir, source=source)


def torchvision_datasets():
    """Import what is slow to import, so not by all who only collect these tests."""
    from simulations.tasks.images.vision import datasets

    return datasets


def pixels(n):
    return RNG.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)


def digest(path):
    return hashlib.md5(path.read_bytes()).hexdigest()


def write_cifar(folder, batches, monkeypatch, *, kind, meta, label_key):
    """Write CIFAR's pickles and tell torchvision their checksums, as it knows the real ones."""
    kind = getattr(torchvision_datasets(), kind)
    folder.mkdir(parents=True)
    for name, (images, labels) in batches.items():
        rows = images.transpose(0, 3, 1, 2).reshape(len(images), 3072)
        (folder / name).write_bytes(pickle.dumps({"data": rows, label_key: labels.tolist()}))
    (folder / meta[0]).write_bytes(pickle.dumps({meta[1]: ["x"]}))
    names = list(batches)
    monkeypatch.setattr(kind, "train_list", [[n, digest(folder / n)] for n in names[:-1]])
    monkeypatch.setattr(kind, "test_list", [[names[-1], digest(folder / names[-1])]])
    monkeypatch.setattr(kind, "meta", kind.meta | {"md5": digest(folder / meta[0])})


@pytest.fixture
def cifar10(tmp_path, monkeypatch):
    spec = changed(CIFAR10, train_count=100, test_count=20)
    batches = {f"data_batch_{i}": (pixels(20), np.arange(20) % 10) for i in range(1, 6)}
    batches["test_batch"] = (pixels(20), np.arange(20)[::-1] % 10)
    source = tmp_path / "source"
    write_cifar(
        source / "cifar-10-batches-py",
        batches,
        monkeypatch,
        **CIFAR10_FORMAT,
    )
    return spec, source, batches


def check_cifar10(spec, data_dir, batches):
    arrays = spec.open(data_dir)
    train = [images for images, _ in list(batches.values())[:-1]]
    np.testing.assert_array_equal(arrays.train.inputs, np.concatenate(train))
    np.testing.assert_array_equal(arrays.test.inputs, batches["test_batch"][0])
    np.testing.assert_array_equal(arrays.test.targets, batches["test_batch"][1])


def test_cifar10_from_folder_parent_or_archive(cifar10, tmp_path):
    spec, source, batches = cifar10
    for number, given in enumerate((source, source / "cifar-10-batches-py")):
        data_dir = tmp_path / f"data-{number}"
        assert prepare(spec, data_dir, source=given) == data_dir / "cifar10"
        check_cifar10(spec, data_dir, batches)
    archive = tmp_path / "packed" / "cifar-10-python.tar.gz"
    archive.parent.mkdir()
    with tarfile.open(archive, "w:gz") as file:
        file.add(source / "cifar-10-batches-py", "cifar-10-batches-py")
    for number, given in enumerate((archive, archive.parent)):
        data_dir = tmp_path / f"unpacked-{number}"
        prepare(spec, data_dir, source=given)
        check_cifar10(spec, data_dir, batches)


def test_cifar100_has_fine_labels(tmp_path, monkeypatch):
    spec = changed(CIFAR100, train_count=200, test_count=100)
    batches = {
        "train": (pixels(200), np.arange(200) % 100),
        "test": (pixels(100), np.arange(100)[::-1].copy()),
    }
    folder = tmp_path / "source" / "cifar-100-python"
    write_cifar(folder, batches, monkeypatch, **CIFAR100_FORMAT)
    prepare(spec, tmp_path, source=tmp_path / "source")
    arrays = spec.open(tmp_path)
    np.testing.assert_array_equal(arrays.train.inputs, batches["train"][0])
    np.testing.assert_array_equal(arrays.test.targets, batches["test"][1])


def write_svhn(source, parts, monkeypatch):
    """Write SVHN's MATLAB files and tell torchvision their checksums."""
    source.mkdir()
    kind = torchvision_datasets().SVHN
    splits = {}
    for part, (images, labels) in parts.items():
        path = source / f"{part}_32x32.mat"
        tens = np.where(labels == 0, 10, labels).astype(np.uint8)[:, None]
        savemat(path, {"X": images.transpose(1, 2, 3, 0), "y": tens})
        splits[part] = [kind.split_list[part][0], path.name, digest(path)]
    monkeypatch.setattr(kind, "split_list", splits)


def test_svhn_calls_the_digit_zero_ten(tmp_path, monkeypatch):
    spec = changed(SVHN, train_count=30, test_count=20)
    parts = {part: (pixels(n), np.arange(n) % 10) for part, n in (("train", 30), ("test", 20))}
    write_svhn(tmp_path / "source", parts, monkeypatch)
    prepare(spec, tmp_path, source=tmp_path / "source")
    arrays = spec.open(tmp_path)
    np.testing.assert_array_equal(arrays.train.inputs, parts["train"][0])
    np.testing.assert_array_equal(arrays.test.targets, np.arange(20) % 10)


@pytest.fixture
def cinic10(tmp_path):
    spec = changed(CINIC10, train_count=20, test_count=10)
    for part, n in (("train", 2), ("test", 1), ("valid", 1)):
        for label, name in enumerate(spec.classes):
            folder = tmp_path / "source" / part / name
            folder.mkdir(parents=True)
            for k in range(n):
                colour = (label, k, 200)
                mode = "L" if label == 3 else "RGB"  # some of the real files are grey
                Image.new("RGB", (32, 32), colour).convert(mode).save(folder / f"{k}.png")
    return spec, tmp_path / "source"


def test_cinic10_from_its_folders(cinic10, tmp_path):
    spec, source = cinic10
    prepare(spec, tmp_path, source=source)
    arrays = spec.open(tmp_path)
    np.testing.assert_array_equal(arrays.train.targets, np.repeat(np.arange(10), 2))
    np.testing.assert_array_equal(arrays.train.inputs[3, 0, 0], [1, 1, 200])
    np.testing.assert_array_equal(np.ptp(arrays.train.inputs[6], axis=-1), 0)


def test_cinic10_without_a_class_or_with_another_size(cinic10, tmp_path):
    spec, source = cinic10
    with pytest.raises(DataError, match=r"the train images of CINIC-10 must be uint8 \[90000, 32"):
        prepare(CINIC10(), tmp_path, source=source)
    Image.new("RGB", (16, 32)).save(source / "train" / "bird" / "0.png")
    with pytest.raises(DataError, match=r"bird/0.png must be 32 x 32 pixels, but is \(16, 32\)"):
        prepare(spec, tmp_path, source=source)
    (source / "train" / "bird").rename(source / "train" / "birds")
    with pytest.raises(DataError, match=r"one folder per class of CINIC-10 .* but has airplane"):
        prepare(spec, tmp_path, source=source)
    with pytest.raises(DataError, match=r"there is no folder .*; they are at https://datashare"):
        prepare(spec, tmp_path, source=tmp_path / "nothing")
    with pytest.raises(DataError, match=r"cannot be downloaded by this program: fetch https://"):
        prepare(spec, tmp_path)
    assert not (tmp_path / "cinic10").exists()


def test_a_class_without_samples_is_named(cifar10, tmp_path, monkeypatch):
    spec, _, batches = cifar10
    batches["test_batch"] = (pixels(20), np.arange(20) % 9)
    folder = tmp_path / "other" / "cifar-10-batches-py"
    write_cifar(folder, batches, monkeypatch, **CIFAR10_FORMAT)
    with pytest.raises(DataError, match=r"the test set of CIFAR-10 has no sample of class truck\."):
        prepare(spec, tmp_path / "data", source=tmp_path / "other")
    assert list((tmp_path / "data").iterdir()) == []


def test_damaged_files_are_refused(cifar10, tmp_path):
    spec, source, _ = cifar10
    with (source / "cifar-10-batches-py" / "data_batch_3").open("ab") as file:
        file.write(b"x")
    with pytest.raises(DataError, match=r"does not hold .* of CIFAR-10 as published .*corrupted"):
        prepare(spec, tmp_path / "data", source=source)
    (tmp_path / "bad.tar.gz").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"bad.tar.gz cannot be unpacked"):
        prepare(spec, tmp_path / "data", source=tmp_path / "bad.tar.gz")


@pytest.mark.parametrize("spec", [SVHN(), CIFAR10(), CIFAR100()], ids=lambda spec: spec.name)
def test_without_a_network_it_says_where_to_get_the_files(spec, tmp_path, monkeypatch):
    def unreachable(*args, **kwargs):
        raise URLError("Temporary failure in name resolution")

    monkeypatch.setattr("urllib.request.urlopen", unreachable)
    with pytest.raises(DataError) as caught:
        prepare(spec, tmp_path / "data")
    sentence = str(caught.value)
    assert "Temporary failure in name resolution" in sentence
    assert f"`fedau data prepare {spec.name} --from FOLDER`" in sentence
    assert "http" in sentence
    assert "\n" not in sentence
    assert list((tmp_path / "data").iterdir()) == []


def test_real_svhn_survives_the_way_through_its_official_format(tmp_path, monkeypatch):
    """The real test images, written as SVHN's MATLAB files, come back as they were."""
    shared = shared_data()
    loader = spec_from_file_location("shared_data", shared / "prepare.py")
    real = module_from_spec(loader)
    loader.loader.exec_module(real)
    images, labels = real.svhn("test")
    few = slice(0, 2_000)
    parts = {"train": (images[few], labels[few]), "test": (images, labels)}
    write_svhn(tmp_path / "source", parts, monkeypatch)
    prepare(changed(SVHN, train_count=2_000), tmp_path, source=tmp_path / "source")
    built = changed(SVHN, train_count=2_000).open(tmp_path)
    digits = hashlib.sha256(built.test.inputs.tobytes()).hexdigest()[:16]
    assert (len(built.test), digits) == real.EXPECTED["svhn", "test"]
    np.testing.assert_array_equal(built.test.targets, labels)
    np.testing.assert_array_equal(built.train.inputs, images[few])
