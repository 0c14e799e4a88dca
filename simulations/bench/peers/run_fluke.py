"""fluke: its FedAvg with its own clients, server and channel."""

import torch
from driver import problem, serve
from fluke import DDict, FlukeENV
from fluke.client import Client
from fluke.config import OptimizerConfigurator
from fluke.server import Server


class Batches:
    """A client's data loader."""

    def __init__(self, client):
        self.client = client

    def __iter__(self):
        return iter(problem.batches(self.client))

    def __len__(self):
        return problem.steps


FlukeENV().set_seed(1)
FlukeENV().set_device("cpu")
FlukeENV().set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
optimiser = OptimizerConfigurator(DDict(name="SGD", lr=problem.lr))
loss = torch.nn.CrossEntropyLoss()
clients = [
    Client(number, Batches(number), None, optimiser, loss, local_epochs=1, persistency=False)
    for number in range(len(problem.clients))
]
server = Server(problem.module(), None, clients, weighted=False)
for client in clients:
    client.set_channel(server.channel)
rounds = 0


def run_round(numbers):
    global rounds
    rounds += 1
    chosen = [clients[number] for number in numbers]
    server.broadcast_model(chosen)
    for client in chosen:
        client.local_update(rounds)
    server.aggregate(chosen, server.receive_client_models(chosen, state_dict=False))


serve(run_round)
