"""A local step that is recorded once and replayed: on a GPU, launching it costs more than doing it.

A CUDA graph holds the kernels of forward pass, backward pass and update over fixed memory; inputs,
targets and step size are copied in, and all of it is launched at once. What it cannot do falls
back to the plain call: batches of another shape than the recorded one.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from simulations.tasks import Task

Record = Callable[[Callable[[], None], Sequence[Tensor], torch.Generator], Callable[[], None]]
"""Takes a call, what it changes and what it draws from; returns what does it again."""
_WARM_UP = 3


def record_graph(
    call: Callable[[], None], changed: Sequence[Tensor], drawn: torch.Generator
) -> Callable[[], None]:
    """Record a call as a CUDA graph; what it `changed` while warming up is put back."""
    before, state = [value.detach().clone() for value in changed], drawn.get_state()
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(_WARM_UP):
            call()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(drawn)
    with torch.cuda.graph(graph):
        call()
    drawn.set_state(state)
    with torch.no_grad():
        for value, kept in zip(changed, before, strict=True):
            value.copy_(kept)
    return graph.replay


class ReplayedStep:
    """A step of plain SGD with a task's loss on a resident network, in training mode.

    Its layers draw from `dropout`; `record` is `record_graph`, or what works without a GPU.
    """

    def __init__(
        self, task: Task, module: nn.Module, dropout: torch.Generator, record: Record = record_graph
    ) -> None:
        self._task, self._module, self._dropout, self._record = task, module, dropout, record
        self._weights: list[Tensor] = list(module.parameters())
        self._replay: Callable[[], None] | None = None

    def __call__(self, inputs: Tensor, targets: Tensor, lr: float) -> Tensor:
        """Make one step and return its loss."""
        if self._replay is None:
            self._inputs, self._targets = inputs.clone(), targets.clone()
            self._rate = torch.zeros((), device=inputs.device, dtype=inputs.dtype)
            self._loss = torch.zeros_like(self._rate)
            self._replay = self._record(self._recorded, self._weights, self._dropout)
        if (inputs.shape, targets.shape) != (self._inputs.shape, self._targets.shape):
            return self._step(inputs, targets, torch.tensor(-lr, device=inputs.device))
        self._inputs.copy_(inputs)
        self._targets.copy_(targets)
        self._rate.fill_(-lr)
        self._replay()
        return self._loss.clone()

    def _recorded(self) -> None:
        self._loss.copy_(self._step(self._inputs, self._targets, self._rate))

    def _step(self, inputs: Tensor, targets: Tensor, rate: Tensor) -> Tensor:
        """Add `rate`, which is negative, times the gradient."""
        loss = self._task.loss(self._module(inputs), targets)
        gradients = torch.autograd.grad(loss, self._weights)
        with torch.no_grad():
            torch._foreach_add_(self._weights, torch._foreach_mul(gradients, rate))
        return loss.detach()
