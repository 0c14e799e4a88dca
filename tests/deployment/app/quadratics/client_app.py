"""One client."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from quadratics import problem

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    (model,) = message.content["arrays"].to_numpy_ndarrays()
    trained = problem.train(
        model,
        int(context.node_config["partition-id"]),
        step_size=float(context.run_config["step-size"]),
        steps=int(context.run_config["local-steps"]),
    )
    content = RecordDict(
        {"arrays": ArrayRecord([trained]), "metrics": MetricRecord({"num-examples": 1})}
    )
    return Message(content, reply_to=message)
