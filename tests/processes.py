"""Which processes a test has started, whoever their parent is by now."""

import os
from collections.abc import Iterable
from contextlib import suppress

import psutil


def command_line(process: psutil.Process) -> str:
    """Return a process's command line, empty if it has ended."""
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def still_running(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Return those that have not ended; one that nobody asked after has."""
    running = []
    for process in processes:
        with suppress(psutil.Error):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                running.append(process)
    return running


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
