from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from simulations.tasks.cifar10 import CIFAR10
from simulations.tasks.cifar100 import CIFAR100
from simulations.tasks.cinic10 import CINIC10
from simulations.tasks.images.models import SeededDropout, build_model
from simulations.tasks.svhn import SVHN
from simulations.tasks.synthetic import Synthetic

CONVOLUTIONS = (3 * 9 + 1) * 32 + (32 * 9 + 1) * 32


def dense(*widths):
    return sum((a + 1) * b for a, b in pairwise(widths))


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        (SVHN(), CONVOLUTIONS + dense(2048, 128, 10)),
        (CIFAR10(), 551_786),
        (CIFAR100(), CONVOLUTIONS + dense(2048, 512, 256, 100)),
        (CINIC10(), CONVOLUTIONS + dense(2048, 512, 256, 10)),
        (Synthetic(), dense(192, 64, 10)),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_parameter_counts(spec, count):
    model = build_model(spec, seed=1)
    assert sum(p.numel() for p in model.parameters()) == count
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, spec.num_classes)


def test_all_but_the_last_layer_are_kaiming_normal_with_zero_bias():
    model = build_model(CIFAR10(), seed=1)
    layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    for layer in layers[:-1]:
        fan_in = layer.weight[0].numel()
        assert layer.weight.std().item() == pytest.approx((2 / fan_in) ** 0.5, rel=0.1)
        assert not layer.bias.any()
    last = layers[-1]
    bound = 64**-0.5
    assert last.weight.abs().max() <= bound
    assert last.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
    assert last.bias.any()


def test_the_seed_decides_the_initial_model_and_nothing_else():
    torch.manual_seed(7)
    before = torch.get_rng_state()
    one, same, other = (build_model(SVHN(), seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    for a, b in zip(one.parameters(), same.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(one.conv1.weight, other.conv1.weight)


def test_relu_after_pooling_is_the_papers_network():
    model = build_model(CIFAR10(), seed=1)
    paper = nn.Sequential(
        *(model.conv1, nn.ReLU(), nn.MaxPool2d(2), model.conv2, nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), model.dense[0], nn.ReLU(), model.dense[1], nn.ReLU(), model.dense[2]),
    )
    x = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(x), paper(x), rtol=1e-5, atol=1e-5)


def test_dropout_is_before_each_dense_layer_seeded_and_off_in_evaluation():
    model = build_model(CINIC10(), seed=1)
    seen = []
    model.dropout.register_forward_hook(lambda *_: seen.append(1))
    model.dropout.generator = torch.Generator()
    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))

    def forward(seed):
        model.dropout.generator.manual_seed(seed)
        return model(x)

    assert torch.equal(forward(1), forward(1))
    assert not torch.equal(forward(1), forward(2))
    assert len(seen) == 4 * 3
    model.eval()
    assert torch.equal(forward(1), forward(2))


def test_dropout_keeps_the_expected_share_and_scale():
    dropout = SeededDropout(0.2)
    dropout.generator = torch.Generator().manual_seed(0)
    out = dropout(torch.ones(100_000))
    np.testing.assert_allclose(np.unique(out.numpy()), [0, 1.25])
    assert out.mean().item() == pytest.approx(1, abs=0.01)
