"""Which processes a test has started, whoever their parent is by now."""

import os

import psutil

from simulations.launch.process import command_line, still_running


def marked_processes(mark: str) -> list[str]:
    """Return the command lines of other processes that have ``mark`` in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and mark in process.environ().values():
                found.append(process)
        except (psutil.Error, OSError):  # it ended meanwhile, or is somebody else's
            continue
    return [command_line(process) for process in still_running(found)]
