import pytest

from simulations.methods import METHODS
from simulations.tasks import TASKS, StepSize
from simulations.tasks.cifar10 import CIFAR10
from simulations.tasks.cifar100 import CIFAR100
from simulations.tasks.cinic10 import CINIC10
from simulations.tasks.svhn import SVHN
from simulations.tasks.synthetic import Synthetic


def test_counts_and_rounds_are_the_papers():
    assert (SVHN.train_count, SVHN.test_count, SVHN.rounds) == (73_257, 26_032, 2_000)
    assert (CIFAR10.train_count, CIFAR10.test_count, CIFAR10.rounds) == (50_000, 10_000, 10_000)
    assert (CIFAR100.train_count, CIFAR100.test_count, CIFAR100.rounds) == (50_000, 10_000, 20_000)
    assert (CINIC10.train_count, CINIC10.test_count, CINIC10.rounds) == (90_000, 90_000, 10_000)
    names = ["svhn", "cifar10", "cifar100", "cinic10", "synthetic"]
    assert TASKS.ours() == names
    assert [TASKS.find(name).num_classes for name in names] == [10, 10, 100, 10, 10]


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
    tasks = (SVHN(), svhn), (CIFAR10(), cifar10), (CIFAR100(), cifar100), (CINIC10(), cinic10)
    for task, pair in tasks:
        assert METHODS.find(method).steps_on(task) == StepSize(*pair)


def test_every_method_has_step_sizes_on_the_synthetic_set():
    assert all("synthetic" in METHODS.named(name).step_sizes for name in METHODS.ours())


def test_cifar100_halves_the_local_step_ten_times():
    task = CIFAR100()
    assert task.decay(10_000) == 1
    assert task.decay(10_001) == 0.5
    assert task.decay(10_999) == 0.5
    assert task.decay(11_000) == 0.25
    assert task.decay(18_999) == 0.5**9
    assert task.decay(19_000) == task.decay(19_999) == 0.5**10
    assert CIFAR10().decay(9_999) == 1


def test_a_task_has_step_sizes_for_methods_that_do_not_know_it():
    class Own(Synthetic):
        step_sizes = {"mifa": StepSize(0.5, 2)}  # noqa: RUF012
        step_size = StepSize(0.3, 1)

    def on(task, method):
        return METHODS.find(method).steps_on(task)

    assert on(Own(), "mifa") == StepSize(0.5, 2)
    assert on(Own(), "fedau") == StepSize(0.3, 1)

    class Bare(Synthetic):
        pass

    assert on(Bare(), "fedau") == METHODS.find("fedau").step_size
