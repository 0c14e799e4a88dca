"""Participation that was recorded or written down.

Errors are one sentence that names the file, the line and the value.
"""

from collections.abc import Iterator
from itertools import chain
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .process import Process, check, require_positive_integer

EVENT_HEADING = ["client", "start", "end"]
# One byte each: a larger table is a wrong unit (seconds for rounds) or no longer fits in memory.
_MAX_CELLS = 2**31
Row = tuple[int, list[str]]
"""Number and values of a line."""


class Trace(Process):
    """Participation from a table of 0 and 1, one row per round and one column per client.

    Parameters
    ----------
    source : array or path
        The table, or a ``.npy`` file of it, or a ``.csv`` file, which holds either the table or,
        under the heading ``client,start,end``, events: the client is there in rounds ``start`` to
        ``end - 1``, counted from 0.
    clients : int, optional
        Number of clients, if there are more than the source knows; the others never come.
    rounds : int, optional
        Number of rounds, if there are more than the source knows; nobody comes in the others.
    repeat : bool
        Start over after the last round. Without it, a round after the last is an error.
    """

    def __init__(
        self,
        source: ArrayLike | PathLike[str],
        *,
        clients: int | None = None,
        rounds: int | None = None,
        repeat: bool = False,
    ) -> None:
        table = _read(Path(source)) if isinstance(source, str | PathLike) else _as_table(source)
        missing_rounds = _missing("rounds", rounds, table.shape[0])
        missing_clients = _missing("clients", clients, table.shape[1])
        self.table = np.pad(table, ((0, missing_rounds), (0, missing_clients)))
        self.repeat = repeat
        super().__init__(self.table.shape[1])

    @property
    def probability(self) -> NDArray[np.float64]:
        """Share of the trace's rounds in which each client is there; 0 for one that never comes."""
        return np.asarray(self.table.mean(axis=0), dtype=np.float64)

    def _active(self, t: int) -> NDArray[np.bool_]:
        rounds = len(self.table)
        if t >= rounds and not self.repeat:
            raise ValueError(
                f"Round {t} is not in the trace, which has the rounds 0 to {rounds - 1}: "
                "pass repeat=True to start over after the last."
            )
        return np.array(self.table[t % rounds])


def _missing(name: str, wanted: int | None, known: int) -> int:
    """Return how many rows or columns to add to the ``known`` ones."""
    if wanted is None:
        return 0
    enough = require_positive_integer(name, wanted) >= known
    check(name, wanted, enough, f"the trace itself has {known}")
    return wanted - known


def _read(path: Path) -> NDArray[np.bool_]:
    """Return the table [rounds, clients] of a ``.npy`` or ``.csv`` file."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        try:
            table = np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{path} is not a NumPy file of numbers.") from error
        return _as_table(table, str(path))
    if suffix != ".csv":
        raise ValueError(f"{path} cannot be read as a trace: its name must end in .npy or .csv.")
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        reason = f"it has no UTF-8 at byte {error.start}"
        raise ValueError(f"{path} is not a text file: {reason}.") from error
    # Line number and values of each line that is not blank.
    rows = (
        (number, [value.strip() for value in line.split(",")])
        for number, line in enumerate(lines, start=1)
        if line.strip()
    )
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{path} holds no rounds: it is empty.")
    if first[1] == EVENT_HEADING:
        return _table_of_events(path, rows)
    return _table_of_rounds(path, first, rows)


def _as_table(values: ArrayLike, name: str = "The trace") -> NDArray[np.bool_]:
    """Return 0s and 1s as bool [rounds, clients], or raise ValueError about ``name``."""
    table = np.asarray(values)
    if table.ndim != 2 or table.size == 0:
        raise ValueError(f"{name} has the shape {table.shape}: it must be [rounds, clients].")
    if table.dtype.kind not in "biuf":
        raise ValueError(f"{name} holds values of type {table.dtype}: it must hold only 0 and 1.")
    wrong = np.argwhere((table != 0) & (table != 1))
    if wrong.size:
        t, client = wrong[0]
        raise ValueError(
            f"{name} has {table[t, client]} in round {t} for client {client}: "
            "it must hold only 0 and 1."
        )
    return table.astype(np.bool_)


def _table_of_rounds(path: Path, first: Row, rows: Iterator[Row]) -> NDArray[np.bool_]:
    width = len(first[1])
    table = []
    for number, values in chain([first], rows):
        if len(values) != width:
            raise ValueError(
                f"{path}, line {number} has {len(values)} values: "
                f"it must have {width} like line {first[0]}."
            )
        for wrong in (value for value in values if value not in {"0", "1"}):
            raise _not_allowed(path, number, wrong, "0 and 1")
        table.append(np.array(values) == "1")
    return np.stack(table)


def _table_of_events(path: Path, rows: Iterator[Row]) -> NDArray[np.bool_]:
    events = []
    for number, values in rows:
        if len(values) != len(EVENT_HEADING):
            raise ValueError(
                f"{path}, line {number} has {len(values)} values: "
                "it must have client, start and end."
            )
        client, start, end = (_count(path, number, value) for value in values)
        if end <= start:
            raise ValueError(f"{path}, line {number}: end {end} must be after start {start}.")
        events.append((client, start, end))
    if not events:
        raise ValueError(f"{path} holds no events: there is nothing below its heading.")
    clients = max(client for client, _, _ in events) + 1
    rounds = max(end for _, _, end in events)
    if clients * rounds > _MAX_CELLS:
        raise ValueError(
            f"{path} spans {clients} clients and {rounds} rounds: "
            f"their product must be at most {_MAX_CELLS}."
        )
    table = np.zeros((rounds, clients), dtype=np.bool_)
    for client, start, end in events:
        table[start:end, client] = True
    return table


def _count(path: Path, number: int, value: str) -> int:
    # int() alone would also take signs, underscores and the digits of other scripts.
    if not (value.isascii() and value.isdigit() and len(value) <= 18):
        raise _not_allowed(path, number, value, "integers of 0 or more")
    return int(value)


def _not_allowed(path: Path, number: int, value: str, allowed: str) -> ValueError:
    shown = value if len(value) <= 40 else value[:40] + "…"
    return ValueError(f"{path}, line {number}: {shown!r} is not allowed, only {allowed} are.")
