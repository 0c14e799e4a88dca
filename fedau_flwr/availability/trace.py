"""Participation that was recorded or written down.

Errors are one sentence that names the file, the line and the value.
"""

from collections.abc import Iterator
from itertools import chain
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import check, check_count
from .process import Process

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
        rule = f"a round of the trace, 0 to {rounds - 1}; repeat=True starts over after the last"
        check("t", t, t < rounds or self.repeat, rule)
        return np.array(self.table[t % rounds])


def _missing(name: str, wanted: int | None, known: int) -> int:
    """Return how many rows or columns to add to the ``known`` ones."""
    if wanted is None:
        return 0
    check(name, wanted, check_count(name, wanted) >= known, f"at least {known}, as in the trace")
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
    check(f"{path}: its suffix", suffix, suffix == ".csv", ".npy or .csv")
    rows = read_rows(path)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{path} holds no rounds: it is empty.")
    if first[1] == EVENT_HEADING:
        return _table_of_events(path, rows)
    return _table_of_rounds(path, first, rows)


def read_text(path: Path) -> str:
    """Return the content of a file, or raise ValueError if it is no text."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file: no UTF-8 at byte {error.start}.") from None


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the number and the values of each line that is not blank."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield number, [value.strip() for value in line.split(",")]


def _as_table(values: ArrayLike, name: str = "the trace") -> NDArray[np.bool_]:
    """Return 0s and 1s as bool [rounds, clients], or raise ValueError about ``name``."""
    table = np.asarray(values)
    fits = table.ndim == 2 and table.size
    check(f"{name}: its shape", table.shape, fits, "[rounds, clients]")
    check(f"{name}: its type", table.dtype.name, table.dtype.kind in "biuf", "that of 0 and 1")
    for t, client in np.argwhere((table != 0) & (table != 1))[:1]:
        check(f"{name}: round {t} of client {client}", table[t, client], False, "0 or 1")
    return table.astype(np.bool_)


def _table_of_rounds(path: Path, first: Row, rows: Iterator[Row]) -> NDArray[np.bool_]:
    width = len(first[1])
    table = []
    for number, values in chain([first], rows):
        where, rule = f"{path}, line {number}", f"{width} values like line {first[0]}"
        check(where, f"{len(values)} values", len(values) == width, rule)
        for value in {*values} - {"0", "1"}:
            check(where, value[:40], False, "0 or 1 in every place")
        table.append(np.array(values) == "1")
    return np.stack(table)


def _table_of_events(path: Path, rows: Iterator[Row]) -> NDArray[np.bool_]:
    events = []
    for number, values in rows:
        where = f"{path}, line {number}"
        check(where, f"{len(values)} values", len(values) == 3, "client, start and end")
        client, start, end = (_count(where, value) for value in values)
        check(f"{where}: end", end, end > start, f"after start, {start}")
        events.append((client, start, end))
    if not events:
        raise ValueError(f"{path} holds no events: there is nothing below its heading.")
    clients = max(client for client, _, _ in events) + 1
    rounds = max(end for _, _, end in events)
    spanned = f"{path}: its size", f"{clients} clients and {rounds} rounds"
    check(*spanned, clients * rounds <= _MAX_CELLS, f"at most {_MAX_CELLS} cells")
    table = np.zeros((rounds, clients), dtype=np.bool_)
    for client, start, end in events:
        table[start:end, client] = True
    return table


def _count(where: str, value: str) -> int:
    # int() alone would also take signs, underscores and the digits of other scripts.
    fine = value.isascii() and value.isdigit() and len(value) <= 18
    check(f"{where}: a value", value[:40], fine, "an integer >= 0")
    return int(value)
