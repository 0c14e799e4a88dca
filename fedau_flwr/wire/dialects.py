"""The two ways in which Flower's apps lay out a message: by records, and as a `NumPyClient` does.

A `NumPyClient` has a list of arrays in place of named ones, and a fixed set of records around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from ..arrays import Arrays
from .parts import PARTS_RECORD, Layout, Parts, beside
from .records import encode

NUMPY_PARAMETERS = "fitres.parameters"
NUMPY_METRICS = "fitres.metrics"


@dataclass(frozen=True, slots=True)
class MessageDialect:
    """The records of a Message-API app, by the names that its strategy has for them."""

    arrays: str = "arrays"
    config: str = "config"

    def named(self, entries: Any) -> Any:
        """Return a record or dict with its entries by the names under which they travel."""
        return entries

    def content(self, arrays: ArrayRecord, config: dict[str, Any]) -> RecordDict:
        """Return the content of a message to a client."""
        return RecordDict({self.arrays: arrays, self.config: ConfigRecord(config)})


@dataclass(frozen=True, slots=True)
class NumPyDialect:
    """The records of a `NumPyClient`."""

    def named(self, entries: Any) -> Any:
        """Return a record or dict with its entries named by position."""
        return type(entries)({str(number): value for number, value in enumerate(entries.values())})

    def content(self, arrays: ArrayRecord, config: dict[str, Any]) -> RecordDict:
        """Return the content of a message to a client."""
        return RecordDict({"fitins.parameters": arrays, "fitins.config": ConfigRecord(config)})


Dialect = MessageDialect | NumPyDialect


def reply_content(name: str, main: Arrays, parts: Parts, reported: dict[str, Any]) -> RecordDict:
    """Return a reply with a contribution, and nothing else but the reported metrics.

    Parameters
    ----------
    name : str
        Name of the app's own array record.
    main : Arrays
        The first part, with all of the model's names.
    parts : Parts
        All parts.
    """
    extra = beside(parts)
    if name != NUMPY_PARAMETERS:
        content = RecordDict({name: encode(main)})
        if extra:
            content[PARTS_RECORD] = encode(extra)
        if reported:
            content["metrics"] = MetricRecord(reported)
        return content
    return RecordDict(
        {
            name: encode(numbered(main, extra)),
            NUMPY_METRICS: ConfigRecord(reported),
            "fitres.num_examples": MetricRecord({"num_examples": 1}),
            "fitres.status": ConfigRecord({"code": 0, "message": "Success"}),
        }
    )


def numbered(main: Arrays, extra: Arrays) -> Arrays:
    """Return a contribution as a `NumPyClient` sends it: the other parts follow the first."""
    values = [*main.values(), *extra.values()]
    return {str(number): value for number, value in enumerate(values)}


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
