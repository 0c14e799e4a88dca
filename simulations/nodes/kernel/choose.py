"""Which training step a worker uses, and why."""

import torch
from torch import nn

from simulations.nodes.kernel.build import KernelUnavailable
from simulations.nodes.kernel.step import Masks, NativeStep
from simulations.tasks import DataError, Task
from simulations.tasks.images.models import Classifier, SeededDropout


def choose(kernel: str, task: Task, module: nn.Module) -> tuple[NativeStep | None, str]:
    """Return the native step if it is to be used for this task, and the reason otherwise."""
    if kernel == "torch":
        return None, "kernel is torch"
    try:
        return _native(task, module), ""
    except KernelUnavailable as error:
        if kernel == "native":
            raise DataError(f"kernel is 'native', but must be auto or torch: {error}.") from error
        return None, str(error)


def _native(task: Task, module: nn.Module) -> NativeStep:
    """Return the native step of a task whose model is one of the paper's networks."""
    own = {type(task).loss, type(task).score} - {Task.loss, Task.score}
    if own or type(module) is not Classifier or module.pool is not None:
        raise KernelUnavailable("the native step is for the paper's convolutional networks")
    if {(p.device.type, p.dtype) for p in module.parameters()} != {("cpu", torch.float32)}:
        raise KernelUnavailable("the native step is for single precision on the CPU")
    layers = [layer for layer in module.dense if isinstance(layer, nn.Linear)]
    return NativeStep([layer.out_features for layer in layers])


def draw_masks(dropout: SeededDropout, inputs: tuple[int, ...], *, steps: int, batch: int) -> Masks:
    """Draw the factors of dropout for all steps, as the module itself would while training."""
    if dropout.keep == 1:
        return None
    drawn = [dropout(torch.ones(batch, width)).ravel() for _ in range(steps) for width in inputs]
    return torch.cat(drawn).view(steps, -1).numpy()
