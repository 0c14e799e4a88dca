import pytest

from simulations.tasks.spec import (
    CIFAR10,
    CIFAR100,
    CINIC10,
    DATASETS,
    METHODS,
    SVHN,
    SYNTHETIC,
    DataError,
    StepSize,
    dataset,
)


def test_counts_and_rounds_are_the_papers():
    assert (SVHN.train_count, SVHN.test_count, SVHN.rounds) == (73_257, 26_032, 2_000)
    assert (CIFAR10.train_count, CIFAR10.test_count, CIFAR10.rounds) == (50_000, 10_000, 10_000)
    assert (CIFAR100.train_count, CIFAR100.test_count, CIFAR100.rounds) == (50_000, 10_000, 20_000)
    assert (CINIC10.train_count, CINIC10.test_count, CINIC10.rounds) == (90_000, 90_000, 10_000)
    assert [spec.num_classes for spec in DATASETS.values()] == [10, 10, 100, 10, 10]


@pytest.mark.parametrize(
    ("method", "svhn", "cifar10", "cifar100", "cinic10"),
    [
        ("fedau", (0.1, 1), (0.1, 1), (0.0562, 1.78), (0.1, 1)),
        ("average-participating", (0.0562, 1.78), (0.0562, 1.78), (0.0316, 1.78), (0.0562, 1.78)),
        ("average-all", (0.1, 10), (0.1, 10), (0.0562, 10), (0.1, 10)),
        ("fedvarp", (0.1, 1), (0.0562, 1), (0.0316, 1.78), (0.0562, 1)),
        ("mifa", (0.1, 1), (0.0562, 1), (0.0316, 1.78), (0.0562, 1)),
        ("known-statistics", (0.1, 1), (0.0562, 1), (0.0316, 1.78), (0.0562, 1)),
        ("fedavg", (0.0562, None), (0.0562, None), (0.0316, None), (0.0562, None)),
    ],
)
def test_step_sizes_are_the_papers(method, svhn, cifar10, cifar100, cinic10):
    for spec, pair in ((SVHN, svhn), (CIFAR10, cifar10), (CIFAR100, cifar100), (CINIC10, cinic10)):
        assert spec.step_size(method) == StepSize(*pair)


def test_every_method_has_step_sizes_on_the_synthetic_set():
    assert set(SYNTHETIC.step_sizes) == set(METHODS)


def test_cifar100_halves_the_local_step_ten_times():
    assert CIFAR100.decay(10_000) == 1
    assert CIFAR100.decay(10_001) == 0.5
    assert CIFAR100.decay(10_999) == 0.5
    assert CIFAR100.decay(11_000) == 0.25
    assert CIFAR100.decay(18_999) == 0.5**9
    assert CIFAR100.decay(19_000) == CIFAR100.decay(19_999) == 0.5**10
    assert CIFAR10.decay(9_999) == 1


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(DataError, match=r"'mnist', but must be one of svhn, cifar10, cifar100"):
        dataset("mnist")
    with pytest.raises(DataError, match=r"'fedprox', but must be one of fedau, average-part"):
        SVHN.step_size("fedprox")
