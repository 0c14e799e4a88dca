"""What a run logs: one line per report, into its directory as well."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_EVERY_ROUND = ("configure_train:", "aggregate_train:")


def _worth_a_line(record: logging.LogRecord) -> bool:
    return not str(record.msg).startswith(("%s: Received", *_EVERY_ROUND))


@contextmanager
def run_log(path: Path, *, every_round: bool = False) -> Iterator[None]:
    """Copy Flower's log to `path`.

    The lines that strategies write in every round are left out, but for our own if `every_round`.
    """
    flower = logging.getLogger("flwr")
    rounds = logging.getLogger("flwr.fedau")
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setLevel(logging.INFO)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = rounds.level
    flower.addHandler(handler)
    flower.addFilter(_worth_a_line)
    if not every_round:
        rounds.setLevel(logging.WARNING)
    try:
        yield
    finally:
        flower.removeHandler(handler)
        flower.removeFilter(_worth_a_line)
        rounds.setLevel(level)
        handler.close()
