"""One client, or one that spoils what it sends, or dies: ``spoil`` and ``dies-in``, ``dies-at``."""

import os
import signal
import time

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable

from fedau_flwr import FedAUMod, FedAUWeighting, SecureSumMod
from fedau_flwr.secure.mod import RECORD
from quadratics import problem

SPOILS = ("nan", "shape", "huge", "record")
"""One after the other, round by round."""


def fedau(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Weight with the cutoff of the run config."""
    cutoff = int(context.run_config["cutoff"])
    return FedAUMod(FedAUWeighting(cutoff=cutoff))(message, context, call_next)


def secure(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Take part in a secure sum, if the run has one, and maybe die in one of its exchanges."""
    if not float(context.run_config["exchange-seconds"]):
        return call_next(message, context)
    asked = message.content[RECORD]
    dies = (context.node_config.get("dies-in"), context.node_config.get("dies-at"))
    if dies == (asked["exchange"], asked["round"]):
        die()
    return SecureSumMod()(message, context, call_next)


def die() -> None:
    """Kill the SuperNode, its SuperExec and this very process, none of which can say goodbye."""
    with open(f"/proc/{os.getppid()}/stat") as stat:
        supernode = int(stat.read().rsplit(")", 1)[1].split()[1])
    for pid in (supernode, os.getppid(), os.getpid()):
        os.kill(pid, signal.SIGKILL)


def spoil(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    if not context.node_config.get("spoil"):
        return call_next(message, context)
    server_round = int(message.content["config"]["server-round"])
    reply = call_next(message, context)
    if reply.has_error():
        return reply
    (update,) = reply.content["arrays"].to_numpy_ndarrays()
    name = next(iter(reply.content["arrays"]))
    kind = SPOILS[(server_round - 1) % len(SPOILS)]
    if kind == "nan":
        update = np.full_like(update, np.nan)
    elif kind == "shape":
        update = np.append(update, update)
    elif kind == "huge":
        update = np.zeros(5_000_000, dtype=np.float32)
    elif kind == "record":
        reply.content["gift"] = ConfigRecord({"horse": True})
    reply.content["arrays"] = ArrayRecord({name: ArrayRecord([update])["0"]})
    return reply


app = ClientApp(mods=[spoil, secure, fedau])


@app.train()
def train(message: Message, context: Context) -> Message:
    every = int(context.run_config["fails-every"])
    turn = int(message.content["config"]["server-round"]) + int(context.node_config["partition-id"])
    if every and turn % every == 0:
        raise RuntimeError("this client has no battery in this round")
    (model,) = message.content["arrays"].to_numpy_ndarrays()
    time.sleep(float(context.run_config["training-seconds"]))
    trained = problem.train(
        model,
        int(context.node_config["partition-id"]),
        step_size=float(context.run_config["step-size"]),
        steps=int(context.run_config["local-steps"]),
    )
    # What a careless app reports, and what must not leave the client.
    gossip = MetricRecord({"num-examples": 4711, "train-loss": 0.815, "classes": [3, 1, 4]})
    content = RecordDict({"arrays": ArrayRecord([trained]), "metrics": gossip})
    return Message(content, reply_to=message)
