"""PyTorch with batch normalisation: nothing but the two lines."""

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from torch import nn

from fedau_flwr import FedAU, FedAUMod

client = ClientApp(mods=[FedAUMod(report=("train_loss",))])
server = ServerApp()


def network() -> nn.Module:
    """Return the model."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 2)
    )


def samples(partition: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return this client's images, of a brightness of its own, and their labels."""
    generator = torch.Generator().manual_seed(partition)
    images = torch.randn(64, 1, 8, 8, generator=generator) * (1 + partition)
    return images, (images[:, 0, :4].mean((1, 2)) > images[:, 0, 4:].mean((1, 2))).long()


def loaded(message: Message) -> nn.Module:
    """Return the model that a message brings."""
    model = network()
    model.load_state_dict(message.content.array_records["arrays"].to_torch_state_dict())
    return model


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train the model on local data."""
    model = loaded(message).train()
    images, labels = samples(int(context.node_config["partition-id"]))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in range(0, len(images), 16):
        optimiser.zero_grad()
        logits = model(images[batch : batch + 16])
        loss = nn.functional.cross_entropy(logits, labels[batch : batch + 16])
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    metrics = MetricRecord({"train_loss": loss.item(), "num-examples": len(images)})
    arrays = ArrayRecord(model.state_dict())
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@client.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the model on local data."""
    model = loaded(message).eval()
    images, labels = samples(int(context.node_config["partition-id"]))
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).float().mean().item()
    metrics = MetricRecord({"accuracy": right, "num-examples": len(images)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and keep the result."""
    strategy = FedAU(num_clients=int(context.run_config["clients"]), fraction_evaluate=1.0)
    arrays = ArrayRecord(network().state_dict())
    result = strategy.start(grid, arrays, num_rounds=int(context.run_config["num-server-rounds"]))
    last = max(result.evaluate_metrics_clientapp)
    context.state["metrics"] = result.evaluate_metrics_clientapp[last]
    context.state["arrays"] = result.arrays
