"""FedLab: its serial trainer and its synchronous server in a standalone pipeline."""

from driver import problem, serve
from fedlab.contrib.algorithm.basic_client import SGDSerialClientTrainer
from fedlab.contrib.algorithm.basic_server import SyncServerHandler
from fedlab.core.standalone import StandalonePipeline


class Data:
    def get_dataloader(self, client, batch_size):
        return problem.batches(client)


class Handler(SyncServerHandler):
    clients: list[int]

    @property
    def num_clients_per_round(self):
        return len(self.clients)

    def sample_clients(self):
        return self.clients


class Quiet:
    def info(self, text):
        pass


class Pipeline(StandalonePipeline):
    def evaluate(self):
        pass


trainer = SGDSerialClientTrainer(problem.module(), len(problem.clients), logger=Quiet())
trainer.setup_dataset(Data())
trainer.setup_optim(epochs=1, batch_size=problem.batch, lr=problem.lr)
handler = Handler(problem.module(), global_round=0, sample_ratio=1.0, logger=Quiet())
pipeline = Pipeline(handler, trainer)


def run_round(clients):
    handler.clients = clients
    handler.global_round += 1
    pipeline.main()


serve(run_round)
