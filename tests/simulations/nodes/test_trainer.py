import numpy as np
import pytest
import torch
from torch import nn

from simulations.nodes.batches import batch_positions
from simulations.nodes.resident import initial_parameters
from simulations.nodes.trainer import LocalTrainer
from simulations.tasks import DataError, Part
from simulations.tasks.cifar10 import CIFAR10
from simulations.tasks.cinic10 import CINIC10
from simulations.tasks.images.task import Augmentation
from simulations.tasks.synthetic import Synthetic, chunks
from tests.simulations.tasks.changed import changed

DATA = Part(*next(chunks(seed=1, part="train", count=300, num_classes=10)))
PLAIN = changed(CIFAR10, augmentation=Augmentation())


@pytest.fixture(scope="module")
def plain_trainer():
    return LocalTrainer(PLAIN, DATA)


def straightforward(parameters, steps, *, lr):
    """Train the paper's network with the usual modules, optimiser and layout."""
    net = nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(2048, 256), nn.ReLU()),
        *(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10)),
    )
    for value, given_value in zip(net.parameters(), parameters.values(), strict=True):
        value.data.copy_(torch.tensor(given_value))
    optimizer = torch.optim.SGD(net.parameters(), lr=lr)
    losses = []
    for chosen in steps:
        x = (DATA.inputs[chosen] / 255 - np.array(PLAIN.mean)) / np.array(PLAIN.std)
        x = torch.tensor(x.transpose(0, 3, 1, 2), dtype=torch.get_default_dtype())
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), torch.tensor(DATA.targets[chosen]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    arrays = [value.detach().numpy() for value in net.parameters()]
    return dict(zip(parameters, arrays, strict=True)), np.mean(losses)


def differences(trainer, size, number):
    """Return how far five steps of the trainer are from the straightforward ones."""
    start = initial_parameters(PLAIN, seed=number)
    indices = np.random.default_rng(number).permutation(300)[:size]
    got = trainer.train(start, indices, lr=0.05, seed=(1, 4, number))
    rng = np.random.default_rng([0xBA7C, 1, 4, number])
    steps = indices[batch_positions(size, steps=5, batch=16, rng=rng)]
    expected, loss = straightforward(start, steps, lr=0.05)
    assert got.steps == 5
    for name, value in expected.items():
        assert np.abs(value - start[name]).max() > 1e-4
    apart = [np.abs(got.parameters[name] - value).max() for name, value in expected.items()]
    return max(apart), abs(got.loss - loss)


@pytest.mark.parametrize("size", [10, 16, 50, 200])
def test_five_steps_equal_the_straightforward_module_exactly(size):
    """In double precision, where rounding does not decide which of two close values is larger."""
    torch.set_default_dtype(torch.float64)
    try:
        parameters, loss = differences(LocalTrainer(PLAIN, DATA), size, number=1)
    finally:
        torch.set_default_dtype(torch.float32)
    assert parameters < 1e-12
    assert loss < 1e-12


def test_five_steps_equal_the_straightforward_module_in_single_precision(plain_trainer):
    """To 1e-5, but for rounds in which rounding moves a maximum or a ReLU to its other side."""
    apart = [differences(plain_trainer, 200, number) for number in range(10)]
    assert sum(parameters < 1e-5 for parameters, _ in apart) >= 7
    assert np.median([parameters for parameters, _ in apart]) < 2e-6
    assert np.median([loss for _, loss in apart]) < 1e-5
    assert max(parameters for parameters, _ in apart) < 1e-2


@pytest.mark.parametrize("spec", [CIFAR10(), CINIC10()], ids=lambda spec: spec.name)
def test_a_round_can_be_repeated_and_nothing_leaks_between_clients(spec):
    trainer = LocalTrainer(spec, DATA)
    start = initial_parameters(spec, seed=1)
    indices = np.arange(100)
    first = trainer.train(start, indices, lr=0.1, seed=(1, 2, 3))
    for other in ((1, 2, 4), (1, 3, 3), (2, 2, 3)):
        assert trainer.train(start, indices, lr=0.1, seed=other).loss != first.loss
    again = trainer.train(start, indices, lr=0.1, seed=(1, 2, 3))
    fresh = LocalTrainer(spec, DATA).train(start, indices, lr=0.1, seed=(1, 2, 3))
    assert first.loss == again.loss == fresh.loss
    for name, value in first.parameters.items():
        np.testing.assert_array_equal(value, again.parameters[name])
        np.testing.assert_array_equal(value, fresh.parameters[name])
        np.testing.assert_array_equal(start[name], initial_parameters(spec, seed=1)[name])


def test_per_batch_augmentation_is_another_path():
    start = initial_parameters(CIFAR10(), seed=1)
    losses = {
        per_batch: LocalTrainer(CIFAR10(), DATA, augment_per_batch=per_batch)
        .train(start, np.arange(100), lr=0.1, seed=(1, 2, 3))
        .loss
        for per_batch in (False, True)
    }
    assert losses[False] != losses[True]


def test_training_lowers_the_loss():
    trainer = LocalTrainer(Synthetic(), DATA)
    parameters, losses = initial_parameters(Synthetic(), seed=1), []
    for round_ in range(30):
        result = trainer.train(parameters, np.arange(32), lr=0.2, seed=(1, 0, round_))
        parameters = result.parameters
        losses.append(result.loss)
    assert losses[-1] < 0.2 * losses[0]


def test_a_client_without_data_returns_what_it_was_given(plain_trainer):
    start = initial_parameters(PLAIN, seed=1)
    result = plain_trainer.train(start, np.arange(0), lr=0.1, seed=(1, 0, 0))
    assert (result.steps, result.loss) == (0, 0.0)
    for name, value in start.items():
        np.testing.assert_array_equal(result.parameters[name], value)


def test_a_loss_that_is_no_number_is_reported(plain_trainer):
    start = initial_parameters(PLAIN, seed=1)
    result = plain_trainer.train(start, np.arange(50), lr=1e30, seed=(1, 0, 0))
    assert not np.isfinite(result.loss)
    assert np.isfinite(plain_trainer.train(start, np.arange(50), lr=0.1, seed=(1, 0, 0)).loss)


def test_read_only_parameters_are_fine_and_wrong_ones_are_named(plain_trainer):
    start = initial_parameters(PLAIN, seed=1)
    for value in start.values():
        value.flags.writeable = False
    plain_trainer.train(start, np.arange(20), lr=0.1, seed=(1, 0, 0))
    with pytest.raises(DataError, match=r"array conv1.bias of the model is \[32\], but \[3\] was"):
        plain_trainer.model.load(start | {"conv1.bias": np.zeros(3)})
    with pytest.raises(DataError, match=r"the model has the arrays conv1.weight, .* but none were"):
        plain_trainer.model.load({})


def test_a_gpu_that_is_not_there_is_an_error():
    with pytest.raises(DataError, match=r"device is 'cuda:99', but this machine shows \d+ CUDA"):
        LocalTrainer(CIFAR10(), DATA, device="cuda:99")


def test_an_unknown_device_is_an_error():
    with pytest.raises(DataError, match=r"'gpu', but must be auto, cpu, cuda or cuda:N\.$"):
        LocalTrainer(CIFAR10(), DATA, device="gpu")
    assert LocalTrainer(CIFAR10(), DATA, device="auto").model.device.type in {"cpu", "cuda"}


def test_one_thread_per_worker(plain_trainer):
    assert torch.get_num_threads() == 1
