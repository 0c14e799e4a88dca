"""Which metrics of an app's reply leave the client."""

from collections.abc import Mapping
from typing import Any

from flwr.app import RecordDict

from .._log import log
from ..wire.dialects import NUMPY_METRICS, NUMPY_PARAMETERS
from ..wire.requests import COUNTED, TRAINING

COUNTS = ("num-examples", "num_examples")
"""What an app calls its example count, which never leaves a client."""
_told: set[str] = set()


def metrics_of(content: RecordDict) -> dict[str, Any]:
    """Return the metrics of an app's reply, from wherever it put them."""
    records: list[Any] = list(content.metric_records.values())
    if NUMPY_PARAMETERS in content.array_records:
        records = [content.config_records.get(NUMPY_METRICS, {})]
    return {name: value for record in records for name, value in record.items()}


def reported(
    metrics: Mapping[str, Any], report: tuple[str, ...], config: Mapping[str, Any], option: str
) -> dict[str, Any]:
    """Return the metrics in `report`; the log of a client's first round says which stay with it.

    `option` is where a user names them, with braces in the place of the names.
    """
    for name in {*report} - metrics.keys():
        log.warning("Metric %r is to be reported, but the app's reply does not hold it.", name)
    kept = tuple(sorted(metrics.keys() - {*report, *COUNTS}))
    training = str(config.get(TRAINING))
    if kept and COUNTED not in config and training not in _told:
        _told.add(training)
        log.info(
            "Metrics that stay on the client: %s. To send them: %s.", kept, option.format(kept)
        )
    return {name: value for name, value in metrics.items() if name in report}
