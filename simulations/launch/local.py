"""Try an app on a federation of processes with one command: ``fedau deploy local``."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from simulations.launch.federation import Federation
from simulations.launch.flower_run import CONNECTION
from simulations.launch.process import Process
from simulations.launch.signals import one_interruption
from simulations.launch.superlink import Value

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

    Parameters
    ----------
    app : Path
        Folder of the Flower app.
    directory : Path
        Where keys, database, states and logs are kept.
    nodes : int
        Number of SuperNodes.
    tls : bool
        TLS and node authentication.
    run_config : Mapping[str, Value] | None
        Overrides for the app's run configuration.
    data_dir : Path | None
        Folder with the nodes' data, given to them as ``data-dir``.
    keep : bool
        Leave the federation up after the run, until Ctrl-C.
    output : TextIO | None
        Where progress goes; None is the standard output.

    Returns
    -------
    int
        Exit status: 0 if the run was completed, 130 if it was interrupted, 1 otherwise.
    """
    show = output or sys.stdout
    node_config = {"data-dir": str(data_dir.expanduser().resolve())} if data_dir else None
    try:
        with (
            one_interruption() as ignore,
            Federation(directory, nodes=nodes, tls=tls, node_config=node_config) as federation,
        ):
            try:
                return _run(federation, app, run_config or {}, keep, show)
            finally:
                ignore()
    except (RuntimeError, TimeoutError) as error:
        print(f"The federation failed: {error}", file=show)
        return 1
    except KeyboardInterrupt:
        print("Interrupted: everything was stopped.", file=show)
        return 130


def _run(
    federation: Federation,
    app: Path,
    run_config: Mapping[str, Value],
    keep: bool,
    show: TextIO,
) -> int:
    security = "TLS and node authentication" if federation.tls else "no TLS, no authentication"
    where = f"{federation.superlink.address} ({security}), logs in {federation.directory}"
    print(f"SuperLink on {where}", file=show, flush=True)
    federation.start()
    print(f"{len(federation.nodes)} nodes are connected.", file=show, flush=True)
    run = federation.run(app, config=run_config)
    _follow(run, show)
    status = run.wait_finished(timeout=60.0)
    print(f"Run {run.run_id}: {status}", file=show, flush=True)
    if keep:
        print(
            f"The federation stays up until Ctrl-C: FLWR_HOME={federation.superlink.home} "
            f"flwr run {app} {CONNECTION} --stream",
            file=show,
            flush=True,
        )
        while federation.superlink.alive:
            time.sleep(0.5)
    return 0 if status == COMPLETED else 1


def _follow(run: Process, show: TextIO) -> None:
    """Copy what the run writes to ``show``, while it does."""
    with run.open_output() as log:
        while True:
            ended = not run.alive
            while text := log.read(8192):
                show.write(text)
                show.flush()
            if ended:
                return
            with suppress(TimeoutError):
                run.wait(timeout=0.2)
