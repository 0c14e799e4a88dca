"""What every peer's program shares; it runs in the peer's environment, where this suite is not.

A program is started with a folder that holds the `problem`: array files of images and labels, and
``problem.npz`` with who holds what, who comes when, and the initial model. It says when it is
ready, and then runs the round that it is asked for and answers with its seconds, one JSON line
each. Everything else that it prints goes to its standard error.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
_ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def _leave_out_torchvision(register: Callable[..., Any]) -> Callable[..., Any]:
    """Return torch's `register_fake` but for operators that torchvision lacks.

    As it comes it is built for CUDA, and cannot be imported beside a torch without it.
    """

    def registered(name: Any, *given: Any, **options: Any) -> Any:
        if str(name).startswith("torchvision::"):
            return lambda function: function
        return register(name, *given, **options)

    return registered


torch.library.register_fake = _leave_out_torchvision(torch.library.register_fake)


class Problem:
    """The same data, clients, participants and steps for everyone."""

    def __init__(self, folder: Path) -> None:
        given = np.load(folder / "problem.npz", allow_pickle=False)
        self.settings: dict[str, Any] = json.loads(str(given["settings"]))
        self.pixels = np.load(self.settings["images"], mmap_mode="r")
        self.labels = torch.from_numpy(np.load(self.settings["labels"]))
        mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
        scaled = torch.from_numpy(np.array(self.pixels)).permute(0, 3, 1, 2).float().div_(255)
        self.images = scaled.sub_(mean).div_(std)
        self.clients = np.split(given["indices"], given["offsets"][1:-1])
        self.came = np.split(given["came"], given["rounds"][1:-1])
        self.model = {k[6:]: torch.from_numpy(v) for k, v in given.items() if k[:6] == "model:"}
        self.steps, self.batch = self.settings["steps"], self.settings["batch"]
        self.lr: float = self.settings["lr"]

    def module(self) -> nn.Module:
        """Return the network as the paper describes it, with the initial parameters."""
        dense = [v.shape[0] for k, v in self.model.items() if k[:5] == "dense" and v.ndim == 2]
        layers: list[nn.Module] = []
        for channels in (3, 32):
            layers += [nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        layers.append(nn.Flatten())
        for inputs, outputs in pairwise([2048, *dense]):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        module = nn.Sequential(*layers[:-1])
        with torch.no_grad():
            for parameter, value in zip(module.parameters(), self.model.values(), strict=True):
                parameter.copy_(value)
        return module

    def sample(self, client: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the images of all local steps, each batch cropped and mirrored at random."""
        held = self.clients[client]
        size = min(self.batch, len(held))
        passes = range(-(-self.steps * size // len(held)))
        order = np.concatenate([np.random.permutation(held) for _ in passes])
        chosen = torch.from_numpy(order[: self.steps * size])
        padded = nn.functional.pad(self.images[chosen], (4, 4, 4, 4))
        down, right = torch.randint(0, 9, (2,)).tolist()
        images = padded[:, :, down : down + 32, right : right + 32]
        images = images.flip(3) if torch.rand(()) < 0.5 else images
        return images.contiguous(), self.labels[chosen]

    def batches(self, client: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return the batches of all local steps."""
        images, labels = self.sample(client)
        size = len(labels) // self.steps
        return list(zip(torch.split(images, size), torch.split(labels, size), strict=True))


problem = Problem(Path(sys.argv[1]))


def answer(value: object) -> None:
    """Write one line to whoever started this program."""
    _ANSWERS.write(json.dumps(value) + "\n")
    _ANSWERS.flush()


def commands() -> Iterator[tuple[int, int]]:
    """Say that the program is ready, and yield number and threads of each round."""
    answer("ready")
    for line in sys.stdin:
        asked = json.loads(line)
        yield asked["round"], asked["threads"]


def serve(run_round: Callable[[list[int]], object]) -> None:
    """Run the rounds that are asked for, each with the numbers of those who come."""
    for number, threads in commands():
        torch.set_num_threads(threads)
        start = time.perf_counter()
        run_round(problem.came[number - 1].tolist())
        answer(time.perf_counter() - start)
