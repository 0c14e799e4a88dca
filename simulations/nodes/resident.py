"""A network that stays in its worker process while parameters come and go as numpy arrays."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import nn

from simulations.nodes.heap import keep_freed_memory
from simulations.nodes.kernel.choose import choose
from simulations.tasks import DataError, Task
from simulations.tasks.images.models import build_model

Parameters = dict[str, np.ndarray]


def configure_worker_process() -> None:
    """Set this process up for training: one thread, and memory that is kept when freed."""
    torch.set_num_threads(1)
    keep_freed_memory()


def resolve_device(device: str) -> torch.device:
    """Return the torch device called ``cpu``, ``cuda`` or ``cuda:N``; ``auto`` prefers CUDA."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, number = device.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
        raise DataError(f"device is {device!r}, but must be auto, cpu, cuda or cuda:N.")
    if kind == "cuda" and int(number or 0) >= torch.cuda.device_count():
        raise DataError(
            f"device is {device!r}, but this machine shows {torch.cuda.device_count()} CUDA "
            f"devices to torch {torch.__version__}."
        )
    return torch.device(device)


def initial_parameters(task: Task, *, seed: int) -> Parameters:
    """Return the model that a run of this seed starts from."""
    return {
        name: np.array(value.detach().numpy(), order="C")
        for name, value in build_model(task, seed=seed).named_parameters()
    }


def used_kernel(task: Task, *, device: str, kernel: str) -> tuple[str, str]:
    """Return what makes the local steps on such a device, and why it is not the native code."""
    model = ResidentModel(task, device=device, kernel=kernel)
    return ("torch", model.why_torch) if model.native is None else ("native", "")


class ResidentModel:
    """The network of a task on one device; ``load`` and ``dump`` copy parameters in and out."""

    def __init__(self, task: Task, *, device: str = "cpu", kernel: str = "auto") -> None:
        self.device = resolve_device(device)
        self.module = build_model(task, seed=0).to(self.device)
        self.native, self.why_torch = choose(kernel, task, self.module)
        _check_statistics(task, self.module)
        self.parameters: list[nn.Parameter] = list(self.module.parameters())
        self._names = [name for name, _ in self.module.named_parameters()]
        # On the CPU these are views of the parameters, elsewhere a copy on the way.
        self._host = [value.detach().cpu().numpy() for value in self.parameters]

    def check(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Refuse parameters that are not those of the network."""
        if set(parameters) != set(self._names):
            own, given = ", ".join(self._names), ", ".join(parameters) or "none"
            raise DataError(f"the model has the arrays {own}, but {given} were given.")
        for name, host in zip(self._names, self._host, strict=True):
            if (shape := parameters[name].shape) != host.shape:
                sizes = f"{list(host.shape)}, but {list(shape)} was given"
                raise DataError(f"array {name} of the model is {sizes}.")

    @torch.no_grad()
    def load(self, parameters: Mapping[str, np.ndarray]) -> None:
        """Overwrite the network's parameters."""
        self.check(parameters)
        for name, host, value in zip(self._names, self._host, self.parameters, strict=True):
            np.copyto(host, parameters[name])
            if value.is_cuda:
                value.copy_(torch.from_numpy(host))

    @torch.no_grad()
    def dump(self) -> Parameters:
        """Return a copy of the network's parameters."""
        for host, value in zip(self._host, self.parameters, strict=True):
            if value.is_cuda:
                np.copyto(host, value.cpu().numpy())
        pairs = zip(self._names, self._host, strict=True)
        return {name: np.array(host, order="C") for name, host in pairs}


def _check_statistics(task: Task, module: nn.Module) -> None:
    """Refuse layers with running statistics: they would leak from client to client."""
    for name, layer in module.named_modules():
        if getattr(layer, "track_running_stats", False):
            raise DataError(
                f"layer {name} of the model of {task.title} has running statistics, which clients "
                "do not send: set track_running_stats=False, or use group normalisation."
            )
