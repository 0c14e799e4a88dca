"""The network in double precision, and how close its pooling windows and ReLUs come to a tie."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from simulations.tasks.images.models import Classifier
from simulations.tasks.images.task import ModelLayout

HUGE = 2.0**20
"""A step size with which one step is the gradient, up to rounding."""


def random_parameters(widths, rng):
    """Return parameters of the size that training has, biases included."""
    module = Classifier(ModelLayout(tuple(widths)))
    return {
        name: rng.normal(
            scale=0.1 if value.dim() == 1 else (2 / value[0].numel()) ** 0.5, size=value.shape
        ).astype(np.float32)
        for name, value in module.named_parameters()
    }


def random_batches(steps, batch, classes, rng):
    images = rng.normal(size=(steps, batch, 32, 32, 3)).astype(np.float32)
    return images, rng.integers(0, classes, (steps, batch))


def double_module(parameters):
    widths = [value.shape[0] for name, value in parameters.items() if name.endswith("bias")][2:]
    module = Classifier(ModelLayout(tuple(widths))).double()
    module.load_state_dict({name: torch.tensor(value) for name, value in parameters.items()})
    return module


def double_gradients(parameters, images, labels):
    """Return loss and gradients of one batch as torch computes them in double precision."""
    module = double_module(parameters)
    logits = module(torch.tensor(images, dtype=torch.float64).permute(0, 3, 1, 2))
    loss = functional.cross_entropy(logits, torch.tensor(labels))
    loss.backward()
    return loss.item(), {name: p.grad.numpy() for name, p in module.named_parameters()}


@torch.no_grad()
def closest_call(parameters, images):
    """Return how far the nearest window is from a tie and the nearest ReLU from its kink."""
    module = double_module(parameters)
    x = torch.tensor(images, dtype=torch.float64).permute(0, 3, 1, 2)
    distances = []
    for layer in (module.conv1, module.conv2):
        windows = functional.unfold(layer(x).flatten(0, 1)[:, None], 2, stride=2)
        top = windows.topk(2, dim=1).values
        alive = top[:, 0] > 0
        distances += [(top[:, 0] - top[:, 1])[alive].min(), top[:, 0].abs().min()]
        x = functional.relu(functional.max_pool2d(layer(x), 2))
    x = x.flatten(1)
    for layer in list(module.dense)[:-1]:
        assert isinstance(layer, nn.Linear)
        x = layer(x)
        distances.append(x.abs().min())
        x = functional.relu(x)
    return float(min(distances))


def native_gradients(native, parameters, images, labels, masks=None):
    """Return loss and gradients of one batch as a huge step of the kernel shows them."""
    after, losses = native.train(parameters, images[None], labels[None], HUGE, masks)
    return losses[0], {
        name: (parameters[name].astype(np.float64) - after[name]) / HUGE for name in parameters
    }


def relative_errors(got, expected):
    return {
        name: np.linalg.norm(got[name] - value) / np.linalg.norm(value)
        for name, value in expected.items()
        if np.linalg.norm(value) > 0 or np.linalg.norm(got[name]) > 0
    }
