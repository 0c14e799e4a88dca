"""FLGo: its FedAvg server and clients on a task of its own kind."""

import json
import sys
import tempfile
from pathlib import Path

import flgo
import flgo.experiment.logger
import torch
from driver import problem, serve
from flgo.algorithm import fedavg
from flgo.benchmark.toolkits.cv.classification import FromDatasetPipe

everything = torch.utils.data.TensorDataset(problem.images, problem.labels)
current: list[int] = []


class TaskPipe(FromDatasetPipe):
    class TaskDataset(FromDatasetPipe.TaskDataset):
        def __getitems__(self, indices):
            return [self[index] for index in indices]

    def __init__(self, task_path):
        super().__init__(task_path, train_data=everything, test_data=everything)


class Server(fedavg.Server):
    def sample(self):
        return current


class Client(fedavg.Client):
    def get_batch_data(self):
        if not getattr(self, "left", None):
            self.left = problem.batches(self.id)
        return self.left.pop()


algorithm = type(sys)("algorithm")
algorithm.Server, algorithm.Client = Server, Client
home = Path(tempfile.mkdtemp())
task, benchmark = home / "task", home / "given_benchmark"
for folder in (task, benchmark):
    folder.mkdir()
(benchmark / "__init__.py").touch()
(benchmark / "core.py").write_text(f"""
from __main__ import TaskPipe
from {FromDatasetPipe.__module__} import GeneralCalculator as TaskCalculator
""")
held = {f"Client{n}": {"data": some.tolist()} for n, some in enumerate(problem.clients)}
(task / "data.json").write_text(json.dumps({"client_names": list(held), **held}))
facts = {"benchmark": benchmark.name, "bmk_path": str(home), "scene": "horizontal"}
(task / "info").write_text(json.dumps({**facts, "num_clients": len(held)}))
options = {"num_steps": problem.steps, "batch_size": problem.batch, "learning_rate": problem.lr}
options |= {"aggregate": "uniform", "train_holdout": 0.0, "no_tqdm": True, "log_level": "ERROR"}
model = flgo.convert_model(lambda: problem.module())  # noqa: PLW0108 -- a method it takes for a class
logger = flgo.experiment.logger.BasicLogger
runner = flgo.init(str(task), algorithm, options, model=model, Logger=logger)


def run_round(clients):
    global current
    current = clients
    runner.iterate()


serve(run_round)
