"""The two ways in which Flower's apps lay out a message: by records, and as a `NumPyClient` does.

A `NumPyClient` has a list of arrays in place of named ones, and a fixed set of records around it.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from ..arrays import Arrays
from .parts import PARTS_RECORD, Layout, Parts, beside
from .records import encode

NUMPY_REQUEST = ("fitins.parameters", "fitins.config")
NUMPY_PARAMETERS = "fitres.parameters"
NUMPY_METRICS = "fitres.metrics"

T = TypeVar("T")


def numbered(values: Iterable[T]) -> dict[str, T]:
    """Return a `NumPyClient`'s arrays by names, which are their positions."""
    return {str(number): value for number, value in enumerate(values)}


def reply_arrays(parts: Parts, model: Arrays) -> tuple[Arrays, Arrays]:
    """Return the first part by the model's names, zeros where nothing is averaged, and the rest."""
    first = next(iter(parts.values()))
    main = {n: first[n] if n in first else np.zeros_like(value) for n, value in model.items()}
    return main, beside(parts)


def reply_content(name: str, model: Arrays, parts: Parts, reported: dict[str, Any]) -> RecordDict:
    """Return a reply with a contribution, in an array record called `name` as the app's own was.

    Nothing else is in it but the reported metrics.
    """
    main, extra = reply_arrays(parts, model)
    if name == NUMPY_PARAMETERS:
        return RecordDict(
            {
                name: encode(numbered([*main.values(), *extra.values()])),
                NUMPY_METRICS: ConfigRecord(reported),
                "fitres.num_examples": MetricRecord({"num_examples": 1}),
                "fitres.status": ConfigRecord({"code": 0, "message": "Success"}),
            }
        )
    content = RecordDict({name: encode(main)})
    if extra:
        content[PARTS_RECORD] = encode(extra)
    if reported:
        content["metrics"] = MetricRecord(reported)
    return content


def contribution_records(content: RecordDict, layout: Layout) -> tuple[ArrayRecord, ArrayRecord]:
    """Return the record of the first part, and the one of all others by their own names."""
    records = dict(content.array_records)
    extra = records.pop(PARTS_RECORD, ArrayRecord())
    if len(records) != 1:
        raise ValueError(f"{len(records)} ArrayRecords instead of one")
    ((name, record),) = records.items()
    if name == NUMPY_PARAMETERS:
        names = layout.names_beside()
        arrays = list(record.items())
        first = len(arrays) - len(names)
        extra = ArrayRecord({n: a for n, (_, a) in zip(names, arrays[first:], strict=False)})
        record = ArrayRecord(dict(arrays[:first]))
    return record, extra
