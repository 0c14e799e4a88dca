"""The authors' own program, unchanged: its `main.py` with our data, split and participation path.

What it reads and draws is replaced before it starts: the data set by CIFAR-10's arrays, the split
and who comes by those of the problem. Its line at the beginning of each round is where it waits.
"""

import runpy
import sys
import time
from pathlib import Path

import numpy as np
import torch
from driver import answer, commands, problem

program = Path(problem.settings["authors"])
import torchvision.datasets


class CIFAR10:
    """What torchvision's would be, from the arrays."""

    def __init__(self, root, train=True, transform=None, target_transform=None, download=False):
        # The test set is read too, but never used here.
        count = None if train else 16
        self.transform, self.target_transform = transform, target_transform
        self.data = np.array(problem.pixels[:count])
        self.targets = problem.labels[:count].tolist()

    def __len__(self):
        return len(self.targets)


class WorkerSampler:
    """A client that comes when the problem says so."""

    made = 0

    def __init__(self, method, probability):
        self.client, self.participation_prob, self.round = WorkerSampler.made, probability, 0
        WorkerSampler.made += 1

    def sample(self):
        return current is not None and self.client in current


current: set[int] | None = None
asked = commands()
began = 0.0


def report(*words, **options):
    """Take a round's first line for the end of the one before."""
    global current, began
    if not words or words[0] != "seed":
        return
    if current is not None:
        answer(time.perf_counter() - began)
    try:
        number, threads = next(asked)
    except StopIteration:
        raise SystemExit from None
    torch.set_num_threads(threads)
    current = set(problem.came[number - 1].tolist())
    began = time.perf_counter()


torchvision.datasets.CIFAR10 = CIFAR10
sys.path.insert(0, str(program))
huge = str(10**9)
steps, batch = str(problem.steps), str(problem.batch)
sys.argv = ["main.py", "-data", "cifar10", "-gpu", "0", "-iters-total", huge, "-k-adaptive", "50"]
sys.argv += ["-iters-per-eval", huge, "-iters-per-round", steps, "-minibatch", batch]
sys.argv += ["-total-workers", str(len(problem.clients)), "-lr", str(problem.lr)]
sys.argv += ["-iters-checkpoint", huge, "-lr-decay-start-iter", huge]
import util.util

split = dict(enumerate(problem.clients))
util.util.data_participation_each_node = lambda data, count: (split, [0.1] * count)
util.util.WorkerSampler = WorkerSampler
runpy.run_path(str(program / "main.py"), init_globals={"print": report}, run_name="__main__")
