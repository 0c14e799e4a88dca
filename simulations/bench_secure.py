"""Flower's SecAgg+ against our secure sum: one round of each, for real, in this process.

Both sum the same float32 vectors over the same number of shares with the same threshold, and lose
the same clients right before the masked vectors. Flower's side is its own mod and workflow on a grid
that calls the mod directly; nothing goes over a network or through a process on either side.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.common import (
    Code,
    FitIns,
    FitRes,
    NDArrays,
    Parameters,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.compat.common import recorddict_compat as compat
from flwr.server.client_manager import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.server_config import ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedau_flwr.secure import FixedPoint, Payload, RoundId, SecureClient, SecureRound, Topology

Vectors = NDArray[np.float32]


def compare_with_secaggplus(
    *,
    clients: int = 25,
    parameters: int = 551_786,
    dropped: int = 2,
    threshold: int | None = None,
    repeats: int = 1,
    seed: int = 0,
) -> dict[str, float]:
    """Time one round of either protocol over the complete graph, and count our bytes.

    Returns
    -------
    dict
        ``secaggplus-seconds`` and ``ours-seconds`` (the best of `repeats`), their ``ratio``,
        ``bytes-ratio`` (everything a client of ours sends over its vector in float32), and the
        ``secaggplus-error`` and ``ours-error`` of the mean, largest over all parameters.
    """
    needed = clients // 2 + 1 if threshold is None else threshold
    rng = np.random.default_rng(seed)
    vectors = rng.normal(0.0, 0.05, (clients, parameters)).astype(np.float32)
    truth = vectors[dropped:].mean(axis=0, dtype=np.float64)

    theirs, their_mean = _best(repeats, lambda: _secaggplus_round(vectors, dropped, needed))
    ours, (our_mean, sent) = _best(repeats, lambda: _our_round(vectors, dropped, needed))
    return {
        "secaggplus-seconds": theirs,
        "ours-seconds": ours,
        "ratio": theirs / ours,
        "bytes-ratio": sent / (4 * parameters),
        "secaggplus-error": float(np.abs(their_mean - truth).max()),
        "ours-error": float(np.abs(our_mean - truth).max()),
    }


def _best[T](repeats: int, run: Callable[[], T]) -> tuple[float, T]:
    best, result = float("inf"), None
    for _ in range(repeats):
        start = time.perf_counter()
        result = run()
        best = min(best, time.perf_counter() - start)
    return best, cast(T, result)
