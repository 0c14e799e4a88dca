"""The recorded step; on a machine without a GPU the recording is the call itself."""

import numpy as np
import pytest
import torch

from simulations.nodes.replay import ReplayedStep
from simulations.nodes.resident import initial_parameters
from simulations.nodes.trainer import LocalTrainer
from simulations.tasks import Part
from simulations.tasks.cinic10 import CINIC10
from simulations.tasks.synthetic import chunks

TASK = CINIC10()  # has dropout, crops and flips
DATA = Part(*next(chunks(seed=1, part="train", count=200, num_classes=10)))
START = initial_parameters(TASK, seed=3)


def trained(trainer, size, lr=0.05):
    return trainer.train(START, np.arange(size), lr=lr, seed=(1, 2, 3))


def assert_close(one, other):
    assert one.loss == pytest.approx(other.loss, rel=1e-5)
    for name, value in one.parameters.items():
        np.testing.assert_allclose(value, other.parameters[name], atol=1e-6)


def test_replayed_steps_are_those_of_plain_calls_whatever_shape_and_step_size():
    recorded, replays = [], []

    def record(call, changed, drawn):
        recorded.append((len(changed), drawn))
        return lambda: replays.append(1) or call()

    plain = LocalTrainer(TASK, DATA, kernel="torch")
    ours = LocalTrainer(TASK, DATA, kernel="torch")
    module, dropout = ours.model.module.train(), ours._dropout
    ours._replayed = ReplayedStep(TASK, module, dropout, record=record)
    for size, lr in ((100, 0.05), (7, 0.05), (100, 0.01)):
        assert_close(trained(ours, size, lr), trained(plain, size, lr))
    # Of 16 images; batches of 7 are launched one by one.
    assert recorded == [(len(list(module.parameters())), dropout)]
    assert len(replays) == 10


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that torch can use")
def test_a_graph_on_a_gpu_does_what_launched_steps_do():
    graph = LocalTrainer(TASK, DATA, device="cuda", kernel="torch")
    launched = LocalTrainer(TASK, DATA, device="cuda", kernel="torch", replay=False)
    for size in (100, 7, 100):
        assert_close(trained(graph, size), trained(launched, size))
    assert graph._data is not None
    assert graph._data[0].is_cuda
