"""Try an app on a real federation with one command: the machinery behind ``fedau deploy local``."""

import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Self, TextIO

from simulations.launch.federation import CONNECTION, Federation
from simulations.launch.flower_run import Run

COMPLETED = "finished:completed"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def deploy_local(
    app: Path,
    *,
    nodes: int = 5,
    tls: bool = True,
    run_config: Mapping[str, str | int | float | bool] | None = None,
    data_dir: Path | None = None,
    directory: Path | None = None,
    keep: bool = False,
    output: TextIO | None = None,
) -> int:
    """Start a federation on this machine, run an app on it, and stop everything again.

    Parameters
    ----------
    app : Path
        Folder of the Flower app.
    nodes : int
        Number of SuperNodes.
    tls : bool
        TLS and node authentication.
    run_config : Mapping[str, str | int | float | bool] | None
        Overrides for the app's run configuration.
    data_dir : Path | None
        Folder with the nodes' data, given to them as ``data-dir``.
    directory : Path | None
        Where keys, database, states and logs are kept; None is a temporary folder.
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
            Interruption() as interruption,
            _directory(directory) as place,
            Federation(place, nodes=nodes, tls=tls, node_config=node_config) as federation,
        ):
            try:
                return _run(federation, app, run_config or {}, keep, show)
            finally:
                interruption.ignore()
    except (RuntimeError, TimeoutError) as error:
        print(f"The federation failed: {error}", file=show)
        return 1
    except KeyboardInterrupt:
        print("Interrupted: everything was stopped.", file=show)
        return 130


def _run(
    federation: Federation,
    app: Path,
    run_config: Mapping[str, str | int | float | bool],
    keep: bool,
    show: TextIO,
) -> int:
    security = "TLS and node authentication" if federation.tls else "no TLS, no authentication"
    print(
        f"SuperLink on {federation.address} ({security}), logs in {federation.directory}", file=show
    )
    federation.start()
    print(f"{len(federation.nodes)} nodes are connected.", file=show, flush=True)
    run = federation.run(app, config=run_config)
    _follow(run, show)
    status = run.wait_finished(timeout=60.0)
    print(f"Run {run.run_id}: {status}", file=show, flush=True)
    if keep:
        print(
            f"The federation stays up until Ctrl-C: FLWR_HOME={federation.directory / 'flower'} "
            f"flwr run {app} {CONNECTION} --stream",
            file=show,
            flush=True,
        )
        while federation.superlink.alive:
            time.sleep(0.5)
    return 0 if status == COMPLETED else 1


def _follow(run: Run, show: TextIO) -> None:
    """Copy what the run writes to ``show``, while it does."""
    with run.open_output() as log:
        while True:
            ended = not run.alive
            while text := log.read(8192):
                show.write(text)
                show.flush()
            if ended:
                return
            time.sleep(0.2)


@contextmanager
def _directory(directory: Path | None) -> Iterator[Path]:
    if directory is not None:
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="fedau-") as temporary:
        yield Path(temporary)


class Interruption:
    """Makes the first signal to end a `KeyboardInterrupt`, and lets no other disturb the end.

    So Ctrl-C, a service manager and a terminal that is closed leave no node behind, also if they
    insist. A signal that was ignored before stays so, as SIGHUP does under ``nohup``.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._heard = False

    def ignore(self) -> None:
        """Ignore these signals from now on."""
        self._heard = True

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if not self._heard:
            self._heard = True
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        for number in SIGNALS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
