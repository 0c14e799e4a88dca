"""Where the samples of a deployment are: with each node, and for tests with the server.

A ``data-dir`` that holds ``train-images.npy`` itself is somebody's own data, and all of it belongs
to the node: images ``uint8 [n, 32, 32, 3]`` and labels ``int64 [n]`` of the classes that the run's
``dataset`` has, which also says which model is trained. Otherwise it is a directory of known data
sets, as `fedau data prepare` makes it, and the node holds its share: number ``partition-id`` of
``num-partitions``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulations.config import RunConfig
from simulations.runs.experiment import draw_population
from simulations.tasks import DataError, Part


def node_samples(
    config: RunConfig, node_config: Mapping[str, Any]
) -> tuple[Part, NDArray[np.int64]]:
    """Return the training set that a node opens, and which of its samples are the node's."""
    folder = Path(str(node_config.get("data-dir") or config.data_path)).expanduser()
    if (part := config.task.open_own(folder, "train")) is not None:
        return part, np.arange(len(part))
    number, of = node_config.get("partition-id"), node_config.get("num-partitions", config.clients)
    if not isinstance(number, int) or not isinstance(of, int) or not 0 <= number < of:
        raise DataError(
            f"partition-id is {number!r} of num-partitions {of!r} in the node config, but must "
            f"count from 0, unless data-dir ({folder}) holds the node's own data, as in "
            "train-images.npy."
        )
    train = config.task.open(folder, seed=config.seed).train
    split, *_ = draw_population(config, train.targets, of)
    return train, split.client(number)


def server_test_set(config: RunConfig) -> Part:
    """Return the samples on which the server evaluates; `DataError` if it has none."""
    folder = config.data_path
    part = config.task.open_own(folder, "test")
    return config.task.open(folder, seed=config.seed).test if part is None else part
