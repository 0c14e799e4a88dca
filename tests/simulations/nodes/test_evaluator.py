from itertools import pairwise

import numpy as np
import pytest
import torch

from simulations.nodes.evaluation import Evaluation, client_means, client_test_accuracy
from simulations.nodes.evaluator import Evaluator
from simulations.nodes.resident import initial_parameters
from simulations.tasks import Part
from simulations.tasks.cifar10 import CIFAR10
from simulations.tasks.cinic10 import CINIC10
from simulations.tasks.images.models import build_model
from simulations.tasks.split import Split, dirichlet_split

RNG = np.random.default_rng(0)
DATA = Part(RNG.integers(0, 256, (700, 32, 32, 3), dtype=np.uint8), RNG.integers(0, 10, 700))


def test_values_are_those_of_the_plain_model_with_dropout_off():
    parameters = initial_parameters(CINIC10(), seed=1)
    got = Evaluator(CINIC10()).evaluate(parameters, DATA)
    model = build_model(CINIC10(), seed=1).eval()
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (CINIC10.mean, CINIC10.std))
    x = (torch.tensor(DATA.inputs).permute(0, 3, 1, 2) / 255 - mean) / std
    labels = torch.tensor(DATA.targets)
    with torch.no_grad():
        logits = model(x)
    loss = torch.nn.functional.cross_entropy(logits, labels).item()
    right = (logits.argmax(1) == labels).numpy()
    assert got.loss == pytest.approx(loss, abs=1e-5)
    assert got.accuracy == right.mean()
    expected = [right[DATA.targets == c].mean() for c in range(10)]
    np.testing.assert_allclose(got.class_accuracy, expected)


def test_shards_add_up_to_the_whole():
    parameters = initial_parameters(CIFAR10(), seed=1)
    evaluator = Evaluator(CIFAR10())
    whole = evaluator.evaluate(parameters, DATA)
    bounds = [0, 1, 333, 334, 700]
    shards = [evaluator.evaluate(parameters, DATA, a, b) for a, b in pairwise(bounds)]
    total = shards[0] + shards[1] + shards[2] + shards[3]
    np.testing.assert_array_equal(total.scores, whole.scores)
    np.testing.assert_array_equal(total.counts, np.bincount(DATA.targets))
    assert total.loss_sum == pytest.approx(whole.loss_sum, rel=1e-6)


def test_a_class_without_samples_has_no_accuracy():
    result = Evaluation(6.0, np.array([1, 0, 0]), np.array([2, 1, 0]))
    assert (result.loss, result.accuracy) == (2.0, 1 / 3)
    np.testing.assert_array_equal(result.class_accuracy, [0.5, 0, np.nan])


def test_a_diverged_model_has_the_loss_nan():
    parameters = initial_parameters(CIFAR10(), seed=1)
    parameters["conv1.weight"][:] = np.nan
    assert np.isnan(Evaluator(CIFAR10()).evaluate(parameters, DATA).loss)


def test_client_values_come_from_samples():
    split = dirichlet_split(DATA.targets, num_clients=9, num_classes=10, alpha=0.1, seed=1)
    results = Evaluator(CIFAR10()).samples(initial_parameters(CIFAR10(), seed=1), DATA)
    losses, accuracies = client_means(split, results.losses), client_means(split, results.scores)
    for n in range(9):
        mine = split.client(n)
        assert losses[n] == pytest.approx(results.losses[mine].mean())
        assert accuracies[n] == pytest.approx(results.scores[mine].mean())


def test_an_empty_client_has_no_training_value_but_a_test_accuracy():
    shares = np.array([[0.25, 0.75], [0.5, 0.5]])
    split = Split(np.array([2, 0, 1]), np.array([0, 3, 3]), shares)
    means = client_means(split, np.array([1.0, 2.0, 6.0]))
    np.testing.assert_array_equal(means, [3.0, np.nan])
    test = Evaluation(0.0, np.array([5, 1]), np.array([10, 10]))
    np.testing.assert_allclose(client_test_accuracy(split, test), [0.2, 0.3])
