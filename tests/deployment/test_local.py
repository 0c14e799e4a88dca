"""`fedau deploy local`: one command up, one Ctrl-C down."""

import signal
import sys
from pathlib import Path

import numpy as np

from simulations.deployment import Process
from simulations.deployment.process import flower_environment, still_running
from tests.deployment.conftest import APP

PROGRAM = """
import sys
from pathlib import Path
from simulations.deployment import deploy_local

app, directory = map(Path, sys.argv[1:])
config = {"num-server-rounds": 1, "num-clients": 2, "wait-for": 2, "directory": str(directory)}
sys.exit(deploy_local(app, nodes=2, run_config=config, directory=directory, keep=True))
"""


def test_runs_the_app_and_leaves_nothing_behind(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    command = Process(
        "fedau deploy local",
        [sys.executable, "-c", PROGRAM, str(APP), str(tmp_path / "federation")],
        log=tmp_path / "output.log",
        environment=flower_environment(tmp_path / "home", environment),
    )
    command.start()
    try:
        command.wait_for("stays up until Ctrl-C", timeout=120.0)
        assert "2 nodes are connected." in command.output()
        assert "Round 1: 2 counted, 0 rejected, 0 without reply" in command.output()
        assert "finished:completed" in command.output()
        assert np.load(tmp_path / "federation" / "model.npy").shape == (4,)
        started = command.descendants()
        programs = [args for args in started.values() if "flower-super" in args]
        assert len(programs) == 6  # a SuperLink and two SuperNodes, each with its SuperExec
        command.send(signal.SIGINT)
        assert command.wait(timeout=30.0) == 130
    finally:
        command.stop()
    assert "everything was stopped" in command.output()
    assert not still_running(started)
