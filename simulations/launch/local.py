"""Try an app on a federation of processes with one command: ``fedau deploy local``."""

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TextIO

from simulations.launch.federation import Federation
from simulations.launch.process import Process
from simulations.launch.signals import one_interruption
from simulations.launch.superlink import CONNECTION, Value

COMPLETED = "finished:completed"


def deploy_local(
    app: Path,
    directory: Path,
    *,
    nodes: int = 5,
    tls: bool = True,
    run_config: Mapping[str, Value] | None = None,
    data_dir: Path | None = None,
    keep: bool = False,
    output: TextIO | None = None,
) -> int:
    """Start a federation on this machine, run an app on it, and stop everything again.

    Keys, database, states and logs are kept in `directory`; the nodes get `data_dir` as
    ``data-dir``. With `keep` the federation stays up after the run, until Ctrl-C. Progress goes to
    `output`, by default the standard output.

    Returns
    -------
    int
        Exit status: 0 if the run was completed, 130 if it was interrupted, 1 otherwise.
    """
    say = partial(print, file=output or sys.stdout, flush=True)
    node_config = {"data-dir": str(data_dir.expanduser().resolve())} if data_dir else None
    try:
        with (
            one_interruption() as ignore,
            Federation(directory, nodes=nodes, tls=tls, node_config=node_config) as federation,
        ):
            try:
                return _run(federation, app, run_config or {}, keep, say)
            finally:
                ignore()
    except (RuntimeError, TimeoutError) as error:
        say(f"The federation failed: {error}")
        return 1
    except KeyboardInterrupt:
        say("Interrupted: everything was stopped.")
        return 130


def _run(
    federation: Federation,
    app: Path,
    config: Mapping[str, Value],
    keep: bool,
    say: Callable[..., None],
) -> int:
    link = federation.superlink
    security = "TLS and node authentication" if federation.tls else "no TLS, no authentication"
    say(f"SuperLink on {link.address} ({security}), logs in {federation.directory}")
    federation.start()
    say(f"{len(federation.nodes)} nodes are connected.")
    run = federation.run(app, config=config)
    _follow(run, say)
    status = run.wait_finished(timeout=60.0)
    say(f"Run {run.run_id}: {status}")
    if keep:
        command = f"FLWR_HOME={link.home} flwr run {app} {CONNECTION} --stream"
        say(f"The federation stays up until Ctrl-C: {command}")
        while link.alive:
            time.sleep(0.5)
    return 0 if status == COMPLETED else 1


def _follow(run: Process, say: Callable[..., None]) -> None:
    """Say what the run writes, while it does."""
    with run.open_output() as log:
        while True:
            ended = not run.alive
            while text := log.read(8192):
                say(text, end="")
            if ended:
                return
            with suppress(TimeoutError):
                run.wait(timeout=0.2)
