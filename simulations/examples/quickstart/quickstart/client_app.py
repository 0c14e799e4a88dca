"""A client that moves the model towards its own wish."""

from typing import Any

from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedau_flwr import FedAUMod, UnitWeighting


def weighted(message: Message, context: Context, call_next: Any) -> Message:
    """Weight the update, or not: an app of your own just has ``mods=[FedAUMod()]``."""
    plain = context.run_config["weighting"] == "equal"
    return FedAUMod(UnitWeighting() if plain else None)(message, context, call_next)


app = ClientApp(mods=[weighted])


@app.train()
def train(message: Message, context: Context) -> Message:
    """Take a step towards the number of this client."""
    (x,) = message.content.array_records["arrays"].to_numpy_ndarrays()
    wish = int(context.node_config["partition-id"])
    x = x + 0.1 * (wish - x)
    return Message(RecordDict({"arrays": ArrayRecord([x])}), reply_to=message)
