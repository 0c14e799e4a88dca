"""What a SuperLink's database has ever held, looked at again and again while it runs."""

import contextlib
import io
import sqlite3
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from flwr.supercore.inflatable.inflatable_object import get_object_type_from_object_content
from numpy.typing import NDArray

INTERVAL = 0.02


class DatabaseRecord:
    """Collects the objects in the database at ``path``, until the ``with`` block ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._objects: dict[str, bytes] = {}

    def arrays(self) -> list[NDArray[Any]]:
        """Return every array that was in it, those in more than one chunk aside."""
        arrays = []
        for content in self._objects.values():
            if get_object_type_from_object_content(content) == "ArrayChunk":
                with contextlib.suppress(ValueError):
                    file = io.BytesIO(content.split(b"\0", 1)[1])
                    arrays.append(np.load(file, allow_pickle=False))
        return arrays

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        connection = sqlite3.connect(f"file:{self._path}?mode=ro", uri=True, timeout=5.0)
        try:
            while not self._ended.wait(INTERVAL):
                self._look(connection)
        finally:
            connection.close()

    def _look(self, connection: sqlite3.Connection) -> None:
        try:
            found = connection.execute("SELECT object_id FROM objects WHERE is_available = 1")
            for (name,) in found.fetchall():
                if name not in self._objects:
                    query = "SELECT content FROM objects WHERE object_id = ?"
                    row = connection.execute(query, (name,)).fetchone()
                    if row is not None and row[0]:
                        self._objects[name] = row[0]
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):  # the SuperLink goes first
                raise
