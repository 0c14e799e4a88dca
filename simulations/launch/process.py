"""One operating-system process with its log file, and everything that it started in turn."""

import contextlib
import os
import signal
import subprocess
import sysconfig
import time
from collections.abc import Collection, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path

from simulations.launch.process_table import process_table


def flower_environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a Flower program whose settings and apps live in ``home``.

    Nothing is installed at run time, nothing is reported to anyone, and loopback is never sent
    through a web proxy that the machine may have configured.
    """
    # Another thread may set or delete a variable meanwhile, at which dict(os.environ) fails.
    present = ((name, os.environ.get(name)) for name in list(os.environ))
    environment = {name: value for name, value in present if value is not None}
    environment |= {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "PATH": os.pathsep.join([sysconfig.get_path("scripts"), environment.get("PATH", "")]),
        "PYTHONUNBUFFERED": "1",
    }
    return environment | dict(extra or {})


class Process:
    """A program that can be started, killed and started again with the same command.

    Parameters
    ----------
    name : str
        What it is called in messages.
    command : Sequence[str]
        Program and arguments.
    log : Path
        File that its output is appended to.
    environment : Mapping[str, str]
        Its whole environment.
    """

    def __init__(
        self, name: str, command: Sequence[str], *, log: Path, environment: Mapping[str, str]
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self.environment = dict(environment)
        self.pids: list[int] = []
        """Ids of all its starts, the last one being `pid`."""
        self._popen: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def pid(self) -> int:
        """Id of the running process, or of the last one."""
        if self._popen is None:
            raise RuntimeError(f"{self.name} was never started.")
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, None while it runs and before it was started."""
        return None if self._popen is None else self._popen.poll()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._popen is not None and self._popen.poll() is None

    def start(self) -> None:
        """Start it; a second start while it runs is an error."""
        if self.alive:
            raise RuntimeError(f"{self.name} already runs as process {self.pid}.")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._log_start = output.tell()
            # Its own session: Ctrl-C reaches us alone, and we stop the parts in the right order.
            self._popen = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
            )
        self.pids.append(self._popen.pid)

    def open_output(self) -> TextIOWrapper:
        """Open its log where its output since the last start begins."""
        log = self.log.open("rb")
        log.seek(self._log_start)
        return TextIOWrapper(log, encoding="utf-8", errors="replace")

    def output(self) -> str:
        """Return what it has written since it was last started."""
        if not self.log.exists():
            return ""
        with self.open_output() as log:
            return log.read()

    def wait_for(self, text: str, *, timeout: float) -> None:
        """Wait until ``text`` is in its output; an exit before that is an error."""
        deadline = time.monotonic() + timeout
        while True:
            ended = not self.alive
            if text in self.output():
                return
            if ended or time.monotonic() > deadline:
                what = f"ended with status {self.returncode}" if ended else "said nothing of it"
                raise RuntimeError(
                    f"Waited for {text!r} from {self.name}, which {what}; its log is {self.log}."
                )
            time.sleep(0.1)

    def wait(self, *, timeout: float) -> int:
        """Wait for its end and return its exit status."""
        if self._popen is None:
            raise RuntimeError(f"{self.name} was never started.")
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.name} still runs after {timeout:g} s.") from None

    def descendants(self) -> dict[int, str]:
        """Return id and command line of what it started since the last start, at any depth."""
        if self._popen is None:
            return {}
        return descendants_of([self.pid]) if self.alive else descendants_of([], dead=[self.pid])

    def kill(self) -> None:
        """End it at once, as ``kill -9`` does; what it started is left to notice by itself."""
        if self._popen is not None and self.alive:
            self._popen.kill()
            self._popen.wait()

    def stop(self, *, timeout: float = 10.0) -> None:
        """Ask it to end, and make sure that neither it nor anything it started is left."""
        stop_together([self], timeout=timeout)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self._popen is not None and self.alive:
            self._popen.send_signal(number)


def descendants_of(pids: Collection[int], *, dead: Collection[int] = ()) -> dict[int, str]:
    """Return id and command line of what these processes started, at any depth.

    Flower tells a child its parent's id on the command line, so children are found even when
    the parent is dead and the system has handed them to another. What has the id of a dead one
    as its parent's is a stranger's: the id was given away again.
    """
    table = process_table()
    found: dict[int, str] = {}
    parents, named = set(pids), {*pids, *dead}
    while named:
        told = [f"--parent-pid {pid} " for pid in named]
        children = {
            pid
            for pid, listed in table.items()
            if listed.parent in parents or any(text in f"{listed.command} " for text in told)
        }
        parents = named = children - found.keys()
        found |= {pid: table[pid].command for pid in parents}
    return found


def stop_together(processes: Sequence[Process], *, timeout: float = 10.0) -> None:
    """Stop several at once: as long as the slowest takes, not as all of them after each other."""
    running = [process for process in processes if process.alive]
    # Before anything ends: what a child of a dead child started is nobody's any more.
    started = {pid: args for process in processes for pid, args in process.descendants().items()}
    for process in running:
        process.send(signal.SIGTERM)
    # What they started would notice by itself, but only after trying to reconnect for a while.
    signal_all(started, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    for process in running:
        try:
            process.wait(timeout=max(0.1, deadline - time.monotonic()))
        except TimeoutError:
            process.kill()
    # And what was just being started at that moment.
    gone = [process.pid for process in running]
    started |= descendants_of(still_running(started), dead=gone)
    end_remaining(started, timeout=3.0)


def still_running(processes: Mapping[int, str]) -> list[int]:
    """Return which of ``processes``, given by id and command line, have not ended.

    The command line tells a process from a later one that got its number.
    """
    table = process_table()
    return [pid for pid, args in processes.items() if pid in table and table[pid].command == args]


def signal_all(processes: Mapping[int, str], number: signal.Signals) -> None:
    """Send a signal to those of ``processes`` that still run."""
    for pid in still_running(processes):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end_remaining(processes: Mapping[int, str], *, timeout: float) -> None:
    """Give processes a moment to end by themselves, then kill what is left of them."""
    deadline = time.monotonic() + timeout
    while still_running(processes):
        if time.monotonic() > deadline:
            signal_all(processes, signal.SIGKILL)
            return
        time.sleep(0.1)
