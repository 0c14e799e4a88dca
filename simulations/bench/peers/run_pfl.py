"""pfl-research: its simulated backend and federated averaging, in as many processes as asked for."""

import os
import subprocess
import sys
import time

# To import pfl's operations is to wait for the other process.
RANK, PROCESSES = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
if PROCESSES > 1 and RANK == 0:
    for number in map(str, range(1, PROCESSES)):
        other = {**os.environ, "RANK": number, "LOCAL_RANK": number}
        subprocess.Popen([sys.executable, *sys.argv], stdin=subprocess.DEVNULL, env=other)

import numpy as np
import torch
from driver import answer, commands, problem
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.algorithm_utils import run_train_eval
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam import NNTrainHyperParams
from pfl.internal.ops import pytorch_ops
from pfl.internal.ops.selector import set_framework_module
from pfl.metrics import Metrics

set_framework_module(pytorch_ops)
from pfl.model.pytorch import PyTorchModel


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = problem.module()

    def forward(self, images):
        return self.layers(images)

    def loss(self, images, labels, is_eval=False):
        self.eval() if is_eval else self.train()
        return torch.nn.functional.cross_entropy(self(images), labels)

    def metrics(self, images, labels, is_eval=True):
        return {}


sampled = iter(())


def sample_user():
    return next(sampled)


def make_dataset(user):
    return Dataset(raw_data=list(problem.sample(user)), user_id=str(user))


data = FederatedDataset(make_dataset, sample_user)
network = Network()
model = PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), 1.0))
local = {"local_learning_rate": problem.lr, "local_batch_size": problem.batch}
hyper = NNTrainHyperParams(local_num_epochs=1, **local)
backend = SimulatedBackend(training_data=data, val_data=data)


def run_round(number):
    global model, sampled
    clients = problem.came[number - 1].tolist()
    # Every process takes its turn of the same list; what is left over goes to nobody.
    sampled = iter(clients + clients)
    parameters = NNAlgorithmParams(
        central_num_iterations=10**9,
        evaluation_frequency=10**9,
        train_cohort_size=len(clients),
        val_cohort_size=0,
    )
    algorithm = FederatedAveraging()
    contexts, model, _ = algorithm.get_next_central_contexts(model, number, parameters, hyper)
    results = run_train_eval(algorithm, backend, model, contexts)
    found, metrics = [], Metrics()
    for context, (statistics, measured) in zip(contexts, results, strict=True):
        metrics |= measured
        if statistics is not None:
            found.append((context, statistics))
    finish = algorithm.process_aggregated_statistics_from_all_contexts
    model, _ = finish(tuple(found), metrics, model)


def told(number, threads):
    """Let all processes know what comes."""
    command = torch.tensor([number, threads])
    if PROCESSES > 1:
        torch.distributed.broadcast(command, 0)
    return command.tolist()


np.random.seed(1)
if RANK == 0:
    for number, threads in commands():
        torch.set_num_threads(threads)
        start = time.perf_counter()
        told(number, threads)
        run_round(number)
        answer(time.perf_counter() - start)
    told(0, 0)
else:
    while (command := told(0, 0))[0]:
        torch.set_num_threads(command[1])
        run_round(command[0])
