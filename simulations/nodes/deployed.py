"""A node of a deployment: one client, which trains on its own samples."""

from collections.abc import Mapping
from typing import Any, cast

from flwr.app import Context, Error, Message, MetricRecord, RecordDict

from fedau_flwr import FedAUMod, _flower
from fedau_flwr.wire.records import decode_all, encode
from simulations.config import ConfigError, RunConfig
from simulations.nodes.deployed_data import node_samples
from simulations.nodes.worker import LR
from simulations.registry import ALLOW_IMPORT
from simulations.tasks import DataError


def fedau_mod(context: Context) -> FedAUMod | None:
    """Return the mod of the run's method, if it has one.

    Its state is where the node config says, see `fedau_flwr.client.mod.open_store`:
    ``fedau-state-dir``, else in the SuperNode's memory.
    """
    method = config_of(context).algorithm
    if not method.participates:
        return None
    return FedAUMod(method.weighting(), transforms=method.transforms)


def config_of(context: Context) -> RunConfig:
    """Return the run's settings, with import paths only as far as the node's owner allows them.

    ``fedau-allow-import="mypkg,other.methods"`` in the node config allows a run config to name any
    class in these packages. Names that packages installed on the node announce are always allowed.
    """
    allowed = str(context.node_config.get(ALLOW_IMPORT, ""))
    return RunConfig.parse(context.run_config, imports=allowed)


def train(message: Message, context: Context) -> Message:
    """Train on the node's samples and reply with the model."""
    from simulations.nodes.resident import ResidentModel  # noqa: PLC0415 -- see `Worker`
    from simulations.nodes.trainer import LocalTrainer  # noqa: PLC0415

    try:
        config = config_of(context)
        part, indices = node_samples(config, context.node_config)
        if not len(indices):
            raise DataError("this node holds no samples to train on")
        model = ResidentModel(config.task, device=config.device, kernel=config.kernel)
        per_batch = config.augmentation == "per-batch"
        trainer = LocalTrainer(config.task, part, augment_per_batch=per_batch, model=model)
        asked = cast("Mapping[str, Any]", message.content["config"])
        number = int(context.node_config.get("partition-id", 0))
        arrays = decode_all(message.content.array_records["arrays"])
        seed = (config.seed, number, int(asked["server-round"]))
        how = {"steps": config.local_steps, "batch": config.batch_size}
        trained = trainer.train(arrays, indices, lr=float(asked[LR]), seed=seed, **how)
    except (ConfigError, DataError) as error:
        # The operator of the server reads it too, without a stack trace around it.
        failed = Error(_flower.ErrorCode.MOD_FAILED_PRECONDITION, str(error))
        return Message(failed, reply_to=message)
    # For Flower's own FedAvg, which needs them; the mod lets nothing but the arrays through.
    metrics = MetricRecord({"num-examples": len(indices)})
    content = RecordDict({"arrays": encode(trained.parameters), "metrics": metrics})
    return Message(content, reply_to=message)
