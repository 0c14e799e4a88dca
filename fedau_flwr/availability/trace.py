"""Participation that was recorded or written down."""

from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .process import Process, require_positive_integer
from .trace_file import as_table, read_trace


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
        table = _table_from(source)
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


def _table_from(source: ArrayLike | PathLike[str]) -> NDArray[np.bool_]:
    if isinstance(source, str | PathLike):
        return read_trace(Path(source))
    return as_table(source)


def _missing(name: str, wanted: int | None, known: int) -> int:
    """Return how many rows or columns to add to the ``known`` ones."""
    if wanted is None:
        return 0
    if require_positive_integer(name, wanted) < known:
        raise ValueError(f"{name} = {wanted} is not allowed: the trace itself has {known}.")
    return wanted - known
