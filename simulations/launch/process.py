"""A program with its log and everything that it started.

Flower and Ray put their processes into sessions of their own, and some outlive their parents, so
neither a signal to a group nor a look at the end would reach them all. Children are noted while
their parents live (`Process.observe`); Flower also tells a child its parent's id on the command
line, by which it is found when the parent is dead and the system has handed it to another.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sysconfig
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import psutil

from simulations.config import ConfigError

POLL_SECONDS = 0.05
KILL_SECONDS = 10.0
"""What does not go in this time after it was killed hangs within the system."""

TELLS_PARENT = "--parent-pid"


def flower_environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a Flower program whose settings and apps live in ``home``.

    Nothing is installed at run time, nothing is reported to anyone, and loopback is never sent
    through a web proxy that the machine may have configured.
    """
    direct = ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1,localhost"]))
    return {
        **os.environ,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "NO_PROXY": direct,
        "no_proxy": direct,
        # Flower starts its parts by name.
        "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]),
        "PYTHONUNBUFFERED": "1",
        **(extra or {}),
    }


def free_port(port: int = 0) -> int:
    """Return `port` of the loopback interface if it is free, any free one for 0."""
    if not 0 <= port < 65536:
        raise ConfigError(f"port is {port}, but must be in 0 to 65535.")
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise ConfigError(f"port is {port}, but must be free: something uses it.") from None
        return int(probe.getsockname()[1])


def run_program(
    command: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, whatever its exit status, and return what it said."""
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    return subprocess.run(command, env=environment, check=False, **pipes)


class Process:
    """A program that can be started, killed and started again with the same command.

    Messages call it `name`, its output is appended to `log`, and `environment` is its whole one.
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
        self._seen: set[psutil.Process] = set()
        self._dead: set[int] = set()

    @property
    def pid(self) -> int:
        """Id of the running process, or of the last one."""
        return self._started().pid

    @property
    def returncode(self) -> int | None:
        """Exit status, None while it runs and before it was started."""
        return None if self._popen is None else self._popen.poll()

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._popen is not None and self.returncode is None

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

    def suspend(self) -> None:
        """Stop it where it is, until `resume`; it can be killed all the same."""
        with suppress(psutil.NoSuchProcess):
            psutil.Process(self.pid).suspend()

    def resume(self) -> None:
        """Let it go on."""
        with suppress(psutil.NoSuchProcess):
            psutil.Process(self.pid).resume()

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

    def reason(self) -> str:
        """Return the last line of its output that looks like the reason for an end."""
        lines = [" ".join(line.split()) for line in self.output().splitlines() if line.strip()]
        reasons = [line for line in lines if "Error" in line or "ERROR" in line]
        return (reasons or lines or ["it wrote nothing"])[-1]

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
            time.sleep(POLL_SECONDS)

    def wait(self, *, timeout: float) -> int:
        """Wait for its end and return its exit status."""
        try:
            return self._started().wait(timeout)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.name} still runs after {timeout:g} s.") from None

    def kill(self) -> None:
        """End it at once, as ``kill -9`` does; what it started is left to notice by itself."""
        if self._popen is not None:
            self._popen.kill()
            self._popen.wait()

    def stop(self, *, timeout: float = 10.0) -> None:
        """Ask it to end, and make sure that neither it nor anything it started is left."""
        stop_together([self], timeout=timeout)

    def observe(self) -> None:
        """Note what it has started by now, to reach it also after its parent's end."""
        _observe([self])

    def descendants(self) -> list[psutil.Process]:
        """Return what runs of all that it ever started, at any depth."""
        self.observe()
        return sorted(self._seen, key=lambda process: process.pid)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._popen is None:
            raise RuntimeError(f"{self.name} was never started.")
        return self._popen

    def _note(self, table: Mapping[int, tuple[psutil.Process, set[int]]]) -> None:
        """Add the new descendants that a table of processes and their parents holds."""
        gone = {process for process in self._seen if table.get(process.pid, (None,))[0] != process}
        self._seen -= gone
        running = {process.pid for process in self._seen} | ({self.pid} if self.alive else set())
        self._dead |= {process.pid for process in gone} | {*self.pids} - running
        # An id that somebody else has by now names a stranger.
        ahead = running | {pid for pid in self._dead if pid not in table}
        while ahead:
            ahead = {pid for pid, (_, parents) in table.items() if parents & ahead} - running
            self._seen |= {table[pid][0] for pid in ahead}
            running |= ahead


def _observe(processes: Iterable[Process]) -> None:
    """Note what several have started, with one look at the system."""
    table = {}
    for process in psutil.process_iter(["ppid", "cmdline", "status"]):
        if process.info["status"] == psutil.STATUS_ZOMBIE or process.info["ppid"] is None:
            continue
        command = process.info["cmdline"] or []
        told = command[command.index(TELLS_PARENT) + 1 :][:1] if TELLS_PARENT in command else []
        parents = {process.info["ppid"], *(int(text) for text in told if text.isdecimal())}
        table[process.pid] = (process, parents)
    for one in processes:
        one._note(table)


def stop_together(processes: Sequence[Process], *, timeout: float = 10.0) -> None:
    """Stop several with all they started: as long as the slowest takes, not one after the other.

    What they started would notice their end by itself, but only after trying to reconnect for a
    while; and something may just be started at that moment, so we look until nothing is left.
    """
    asked: set[psutil.Process] = set()
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline + KILL_SECONDS:
        _observe(processes)
        roots = [process for process in processes if process.alive]
        left = {process for one in processes for process in one._seen}
        if not roots and not left:
            return
        late = time.monotonic() > deadline
        with suppress(psutil.NoSuchProcess):
            left |= {psutil.Process(one.pid) for one in roots}
        for process in left - asked:
            with suppress(psutil.NoSuchProcess):
                (process.kill if late else process.terminate)()
        asked = set() if late else asked | left
        time.sleep(POLL_SECONDS)
