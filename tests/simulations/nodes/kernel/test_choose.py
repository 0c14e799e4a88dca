from dataclasses import replace

import numpy as np
import pytest
import torch

from simulations.nodes.evaluator import Evaluator
from simulations.nodes.kernel.choose import choose, draw_masks
from simulations.nodes.resident import initial_parameters
from simulations.nodes.trainer import LocalTrainer
from simulations.tasks.arrays import Part
from simulations.tasks.models import Classifier, SeededDropout, build_model
from simulations.tasks.spec import CIFAR10, CIFAR100, CINIC10, SVHN, SYNTHETIC, DataError
from simulations.tasks.synthetic import chunks

DATA = Part(*next(chunks(seed=1, part="train", count=300, num_classes=10)))


@pytest.mark.parametrize("spec", [SVHN, CIFAR10, CIFAR100, CINIC10])
def test_the_papers_networks_are_trained_natively(native, spec):
    step, reason = choose("auto", build_model(spec, seed=0))
    assert step is not None
    assert step.widths == spec.model.widths
    assert reason == ""


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (build_model(SYNTHETIC, seed=0), "is for the paper's convolutional networks"),
        (torch.nn.Linear(2, 2), "is for the paper's convolutional networks"),
        (type("Own", (Classifier,), {})(SVHN.model), "is for the paper's convolutional networks"),
        (Classifier(SVHN.model).double(), "is for single precision on the CPU"),
        (Classifier(SVHN.model).to("meta"), "is for single precision on the CPU"),
        (Classifier(replace(SVHN.model, widths=(100, 10))), "multiples of 16 except the last"),
    ],
)
def test_other_modules_are_not(module, reason):
    step, said = choose("auto", module)
    assert step is None
    assert reason in said
    with pytest.raises(DataError, match=r"^kernel is 'native', but must be auto or torch: .*\.$"):
        choose("native", module)


def test_torch_can_be_asked_for():
    assert choose("torch", build_model(SVHN, seed=0)) == (None, "kernel is torch")


def test_another_kernel_is_an_error():
    with pytest.raises(DataError, match=r"^kernel is 'cuda', but must be one of auto, native, "):
        choose("cuda", build_model(SVHN, seed=0))


def test_without_a_compiler_torch_is_used_and_the_reason_known(monkeypatch):
    monkeypatch.setenv("CXX", "/nowhere/cxx")
    trainer = LocalTrainer(SVHN, DATA)
    assert trainer.model.native is None
    reason = "there is no C++ compiler: $CXX, /nowhere/cxx, was not found"
    assert trainer.model.step == f"torch, since {reason}"
    assert trainer.train(initial_parameters(SVHN, seed=1), np.arange(40), lr=0.1, seed=(1, 2, 3))


def test_masks_are_what_the_module_would_draw():
    dropout = SeededDropout(0.2)
    dropout.generator = torch.Generator().manual_seed(7)
    got = draw_masks(dropout, (2048, 512, 256), steps=2, batch=3)
    dropout.generator = torch.Generator().manual_seed(7)
    expected = [dropout(torch.ones(3, n)).ravel() for _ in range(2) for n in (2048, 512, 256)]
    np.testing.assert_array_equal(got.ravel(), torch.cat(expected).numpy())
    assert set(np.unique(got)) == {0, np.float32(1) / np.float32(0.8)}
    assert draw_masks(SeededDropout(0.0), (10,), steps=2, batch=3) is None


@pytest.mark.parametrize("spec", [SVHN, CIFAR10, CINIC10])
def test_five_steps_are_those_of_torch(native, spec):
    """Dropout, crops and short batches included; a maximum that rounding decides may flip."""
    ours, theirs = (LocalTrainer(spec, DATA, kernel=kernel) for kernel in ("native", "torch"))
    apart = []
    for number, size in enumerate((300, 100, 16, 7, 1, 300, 90, 80, 70, 60)):
        start = initial_parameters(spec, seed=number)
        indices = np.random.default_rng(number).permutation(300)[:size]
        got, expected = (
            t.train(start, indices, lr=0.05, seed=(1, 4, number)) for t in (ours, theirs)
        )
        assert got.steps == expected.steps == 5
        assert got.loss == pytest.approx(expected.loss, abs=1e-4)
        assert list(got.parameters) == list(expected.parameters)
        moved = max(np.abs(expected.parameters[n] - start[n]).max() for n in start)
        assert moved > 1e-3
        apart.append(max(np.abs(got.parameters[n] - expected.parameters[n]).max() for n in start))
    assert sum(distance > 1e-5 for distance in apart) <= 1, apart


def test_evaluation_is_that_of_torch(native):
    parameters = initial_parameters(CIFAR10, seed=3)
    ours, theirs = (
        Evaluator(CIFAR10, kernel=kernel).samples(parameters, DATA, 5, 290)
        for kernel in ("native", "torch")
    )
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ours.correct, theirs.correct)
