"""How close local steps stay to double precision: those of the kernel and those of torch."""

import numpy as np
import torch
from numpy.typing import NDArray

from fedau_flwr.arrays import Arrays
from simulations.bench.report import Row
from simulations.bench.settings import BenchSettings
from simulations.bench.side_by_side import Say
from simulations.nodes.resident import ResidentModel, initial_parameters
from simulations.nodes.trainer import LocalTrainer
from simulations.runs.experiment import open_experiment
from simulations.tasks import Task
from simulations.tasks.images.models import build_model

CLOSE = 1e-5
"""Length of a difference, of the update's, up to which two updates are the same."""


def ties_row(settings: BenchSettings, say: Say) -> Row:
    """Count the clients whose local steps end elsewhere than they do in double precision.

    Where the largest values of a pooling window are equal but for rounding, any of them may be the
    maximum, and the gradient goes another way.
    """
    say("the steps against double precision")
    experiment, config = open_experiment(settings.config), settings.config
    task, start = experiment.task, initial_parameters(experiment.task, seed=1)
    models = {kernel: ResidentModel(task, kernel=kernel) for kernel in ("auto", "torch")}
    if models["auto"].native is None:
        return Row("ties", None, note="No native step.")
    trainers = {
        kernel: LocalTrainer(task, experiment.arrays.train, model=model)
        for kernel, model in models.items()
    }
    errors: dict[str, list[float]] = {kernel: [] for kernel in trainers}
    lr, how = 0.1, {"steps": config.local_steps, "batch": config.batch_size}
    for client in range(config.clients):
        indices, seed = experiment.split.client(client), (1, client, 1)
        exact = _in_double(task, start, trainers["torch"].batches(indices, seed, **how), lr)
        for kernel, trainer in trainers.items():
            trained = trainer.train(start, indices, lr=lr, seed=seed, **how).parameters
            update = _difference(trained, start)
            length = float(np.linalg.norm(exact)) or 1.0
            errors[kernel].append(float(np.linalg.norm(update - exact)) / length)
    native, plain = (100 * float(np.mean(np.array(e) > CLOSE)) for e in errors.values())
    details = {"clients": config.clients, "torch-percent": plain} | {
        f"{kernel}-{name}": float(of(e))
        for kernel, e in (("native", errors["auto"]), ("torch", errors["torch"]))
        for name, of in (("median", np.median), ("largest", np.max))
    }
    note = f"After the local steps, {native:.1f} % of {config.clients:,} updates by the native "
    note += f"step and {plain:.1f} % of those by torch are farther than {CLOSE:.0e} from the same "
    note += f"in double precision; the medians are {details['native-median']:.0e} and "
    note += f"{details['torch-median']:.0e}, relative to the update."
    return Row("ties", native, details=details, note=note)


def _in_double(
    task: Task, start: Arrays, batches: tuple[torch.Tensor, torch.Tensor], lr: float
) -> NDArray[np.float64]:
    """Return the update of the same steps in double precision."""
    module = build_model(task, seed=1).double().train()
    module.load_state_dict({name: torch.from_numpy(value) for name, value in start.items()})
    weights: list[torch.Tensor] = list(module.parameters())
    for x, y in zip(*batches, strict=True):
        gradients = torch.autograd.grad(task.loss(module(x.double()), y), weights)
        with torch.no_grad():
            torch._foreach_add_(weights, gradients, alpha=-lr)
    return _difference({k: v.detach().numpy() for k, v in module.state_dict().items()}, start)


def _difference(end: Arrays, start: Arrays) -> NDArray[np.float64]:
    return np.concatenate([(end[n].astype(np.float64) - v).ravel() for n, v in start.items()])
