"""Hugging Face with LoRA: only the adapters travel, the base model stays where it is."""

from typing import Any

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from transformers import BertConfig, BertForSequenceClassification

from fedau_flwr import FedAU, FedAUMod

client = ClientApp(mods=[FedAUMod()])
server = ServerApp()

WORDS = 50


def network() -> Any:
    """Return a tiny BERT with random weights, the same everywhere, and adapters on it."""
    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 32, "max_position_embeddings": 16}
    layers = {"num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": WORDS}
    base = BertForSequenceClassification(BertConfig(**size, **layers, num_labels=2))
    adapters = LoraConfig(r=2, target_modules=["query", "value"], modules_to_save=["classifier"])
    return get_peft_model(base, adapters)


def samples(partition: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return this client's sentences, and whether their first word is of the first half."""
    generator = torch.Generator().manual_seed(partition)
    words = torch.randint(0, WORDS, (32, 8), generator=generator)
    return words, (words[:, 0] < WORDS // 2).long()


def loaded(message: Message) -> Any:
    """Return the model with the adapters that a message brings."""
    model = network()
    state = message.content.array_records["arrays"].to_torch_state_dict()
    set_peft_model_state_dict(model, state)
    return model


@client.train()
def train(message: Message, context: Context) -> Message:
    """Train the adapters on local data."""
    model = loaded(message).train()
    words, labels = samples(int(context.node_config["partition-id"]))
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.05)
    for _ in range(3):
        optimiser.zero_grad()
        loss = model(input_ids=words, labels=labels).loss
        loss.backward()
        optimiser.step()
    arrays = ArrayRecord(get_peft_model_state_dict(model))
    metrics = MetricRecord({"train_loss": loss.item(), "num-examples": len(words)})
    return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@client.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Evaluate the adapters on local data."""
    model = loaded(message).eval()
    words, labels = samples(int(context.node_config["partition-id"]))
    with torch.no_grad():
        loss = model(input_ids=words, labels=labels).loss.item()
    metrics = MetricRecord({"loss": loss, "num-examples": len(words)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Train, and keep the result."""
    strategy = FedAU(num_clients=int(context.run_config["clients"]), fraction_evaluate=1.0)
    arrays = ArrayRecord(get_peft_model_state_dict(network()))
    result = strategy.start(grid, arrays, num_rounds=int(context.run_config["num-server-rounds"]))
    last = max(result.evaluate_metrics_clientapp)
    context.state["metrics"] = result.evaluate_metrics_clientapp[last]
    context.state["arrays"] = result.arrays
