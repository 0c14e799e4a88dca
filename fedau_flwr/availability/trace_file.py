"""Reading of recorded participation.

Errors are one sentence that names the file, the line and the value.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

EVENT_HEADING = ["client", "start", "end"]
_MAX_CELLS = (
    2**31
)  # one byte each: a larger table is a wrong unit (seconds for rounds) or no longer fits in memory


def read_trace(path: Path) -> NDArray[np.bool_]:
    """Return the table [rounds, clients] of a ``.npy`` or ``.csv`` file."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        try:
            table = np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{path} is not a NumPy file of numbers.") from error
        return as_table(table, str(path))
    if suffix != ".csv":
        raise ValueError(f"{path} cannot be read as a trace: its name must end in .npy or .csv.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not a text file: it has no UTF-8 at byte {error.start}."
        ) from error
    rows = _rows(text)
    first = next(rows, None)
    if first is None:
        raise ValueError(f"{path} holds no rounds: it is empty.")
    if first[1] == EVENT_HEADING:
        return _table_of_events(path, rows)
    return _table_of_rounds(path, first, rows)


def as_table(values: ArrayLike, name: str = "The trace") -> NDArray[np.bool_]:
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


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and values of each line that is not blank."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, [value.strip() for value in line.split(",")]


def _table_of_rounds(
    path: Path, first: tuple[int, list[str]], rows: Iterator[tuple[int, list[str]]]
) -> NDArray[np.bool_]:
    width = len(first[1])
    table = [_flags(path, *first)]
    for number, values in rows:
        if len(values) != width:
            raise ValueError(
                f"{path}, line {number} has {len(values)} values: "
                f"it must have {width} like line {first[0]}."
            )
        table.append(_flags(path, number, values))
    return np.stack(table)


def _flags(path: Path, number: int, values: list[str]) -> NDArray[np.bool_]:
    if not {"0", "1"}.issuperset(values):
        wrong = next(value for value in values if value not in {"0", "1"})
        raise ValueError(
            f"{path}, line {number}: {_quoted(wrong)} is not allowed, only 0 and 1 are."
        )
    return np.array([value == "1" for value in values])


def _table_of_events(path: Path, rows: Iterator[tuple[int, list[str]]]) -> NDArray[np.bool_]:
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
        raise ValueError(
            f"{path}, line {number}: {_quoted(value)} is not allowed, "
            "only integers of 0 or more are."
        )
    return int(value)


def _quoted(value: str) -> str:
    return repr(value if len(value) <= 40 else value[:40] + "…")
