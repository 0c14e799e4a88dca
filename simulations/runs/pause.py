"""A run that waits between rounds while somebody else needs the machine.

Whoever wants a pause puts the file ``pause`` into the run's directory. Before its next round the
run takes the file away and writes ``paused``, with the number of that round, and waits until
``paused`` is gone.
"""

from __future__ import annotations

import time

from simulations.runs.directory import RunDirectory, write_atomically

PERIOD = 0.002
"""Seconds between looks at the files; a look takes microseconds."""


def wait_if_asked(run: RunDirectory, coming: int) -> None:
    """Wait before the round `coming` if asked to, until the pause is over or the run is stopped."""
    if not run.pause_file.exists():
        return
    number = f"{coming}".encode()
    # First of all, since whoever sees the other file may ask for the next pause at once.
    run.pause_file.unlink(missing_ok=True)
    write_atomically(run.paused_file, lambda file: file.write(number))
    while run.paused_file.exists() and not run.stop_file.exists():
        time.sleep(PERIOD)
    run.paused_file.unlink(missing_ok=True)
