"""Other frameworks beside ours: the same data, clients and steps, each in its own environment.

`run_NAME.py` is a peer's program, which sees nothing of this suite. Rounds are asked for one at a
time, so that all peers and ours take turns. Each runs at the best of the settings that it has.
"""

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np

from fedau_flwr.files import save_arrays
from fedau_flwr.server.loop import RunFailure
from simulations.bench.settings import BenchSettings
from simulations.bench.side_by_side import Say
from simulations.config import RunConfig
from simulations.launch.process import run_program
from simulations.nodes.resident import initial_parameters
from simulations.runs.experiment import open_experiment
from simulations.tasks.images.task import part_files

PINNED = {
    "authors": ("torchvision==0.28.0",),
    "pfl": ("pfl==0.6.0",),
    "fedlab": ("fedlab==1.3.0",),
    "flgo": ("flgo==0.4.4",),
    "fluke": ("fluke-fl==0.8.1", "wandb==0.19.11"),
}
"""What a peer's environment holds beside the torch of this one."""
PATIENCE = 90.0
"""Seconds for which an answer is awaited."""
TRIALS = 2
"""Rounds at each setting, of which the last counts."""


def prepare(name: str, directory: Path, say: Say) -> Path:
    """Return the Python of a peer's environment, which is made if it is not there."""
    home = directory / name
    python = home / "bin" / "python"
    if not (home / "complete").exists():
        say(f"what {name} needs, which is installed into {home} first")
        wanted = [f"torch=={version('torch')}", *PINNED[name]]
        for command in (
            [sys.executable, "-m", "venv", str(home)],
            [str(python), "-m", "pip", "install", "--quiet", *wanted],
        ):
            done = run_program(command, os.environ)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
                raise RunFailure(f"The environment of {name} could not be made: {reason}")
        (home / "complete").touch()
    return python


def write_problem(config: RunConfig, folder: Path, authors: Path | None) -> None:
    """Write what all peers are given."""
    experiment = open_experiment(config)
    came = [np.flatnonzero(experiment.process.active(t)) for t in range(config.rounds)]
    data = config.task.folder(Path(config.data_dir))  # type: ignore[attr-defined]
    images, labels = map(str, part_files(data, "train"))
    settings = {"images": images, "labels": labels, "authors": str(authors), "lr": config.local_lr}
    settings |= {"steps": config.local_steps, "batch": config.batch_size}
    model = initial_parameters(config.task, seed=config.seed)
    arrays = {
        "settings": np.array(json.dumps(settings)),
        "indices": experiment.split.indices,
        "offsets": experiment.split.offsets,
        "came": np.concatenate(came),
        "rounds": np.cumsum([0, *map(len, came)]),
        **{f"model:{name}": value for name, value in model.items()},
    }
    save_arrays(folder / "problem.npz", arrays)


class Peer:
    """A peer's program that runs, with so many processes of so many threads."""

    def __init__(self, name: str, python: Path, folder: Path, processes: int, threads: int) -> None:
        self.name, self.processes, self.threads = name, processes, threads
        self._log = (folder / f"{name}.log").open("w+")
        variables = {"PYTHONPATH": "", "OMP_NUM_THREADS": str(threads), "WANDB_MODE": "disabled"}
        if processes > 1:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            variables |= {"WORLD_SIZE": str(processes), "RANK": "0", "LOCAL_RANK": "0"}
            variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            variables |= {"TORCHELASTIC_RUN_ID": "bench", "GLOO_SOCKET_IFNAME": "lo"}
        program, pipe = Path(__file__).with_name(f"run_{name}.py"), subprocess.PIPE
        self._process = subprocess.Popen(
            [str(python), str(program), str(folder)], stdin=pipe, stdout=pipe, stderr=self._log,
            text=True, start_new_session=True, cwd=tempfile.mkdtemp(dir=folder),
            env={**os.environ, **variables},
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End it, and whatever it has started."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, 9)
            self._process.wait()
        self._log.close()

    def answer(self) -> Any:
        """Return its next answer."""
        assert self._process.stdout is not None
        # An answer is one line, so that nothing is left in a buffer that this would not see.
        came, _, _ = select.select([self._process.stdout], [], [], PATIENCE)
        line = self._process.stdout.readline() if came else ""
        if not line:
            self._log.seek(0)
            reason = (self._log.read().strip().splitlines() or ["it said nothing"])[-1]
            raise RunFailure(f"{self.name} has not answered: {reason}")
        return json.loads(line)

    def round(self, number: int) -> float:
        """Run a round and return its seconds."""
        assert self._process.stdin is not None
        asked = {"round": number, "threads": self.threads}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return float(self.answer())


@contextmanager
def peers(settings: BenchSettings, folder: Path, say: Say) -> Iterator[list[Peer]]:
    """Start all peers, each at its best setting."""
    folder.mkdir(parents=True, exist_ok=True)
    write_problem(settings.peers, folder, settings.authors)
    names = [name for name in PINNED if name != "authors" or settings.authors]
    pythons = {name: prepare(name, settings.environments or folder, say) for name in names}
    with ExitStack() as running:
        yield [
            running.enter_context(_best(name, python, folder, settings.workers, say))
            for name, python in pythons.items()
        ]


def _best(name: str, python: Path, folder: Path, cores: int, say: Say) -> Peer:
    """Return the peer at its fastest setting: threads, or processes where it has them."""
    settings = [(1, threads) for threads in sorted({1, cores})]
    if name == "pfl" and cores > 1:
        settings.append((cores, 1))
    found: list[tuple[float, Peer]] = []
    running = ExitStack()
    for processes, threads in settings:
        say(f"{name} with {processes} process(es) of {threads} thread(s)")
        with ExitStack() as trial:
            peer = trial.enter_context(Peer(name, python, folder, processes, threads))
            try:
                peer.answer()
                seconds = [peer.round(1) for _ in range(TRIALS)][-1]
            except RunFailure as failure:
                say(f"{name} otherwise ({failure})")
                continue
            if not found or seconds < found[-1][0]:
                found.append((seconds, peer))
                running.close()
                running = trial.pop_all()
    if not found:
        raise RunFailure(f"{name} runs at none of its settings.")
    return found[-1][1]
