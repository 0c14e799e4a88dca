"""A run is a directory; `simulations/README.md` says what is in its files."""

import fcntl
import json
import os
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import tomli_w

from fedau_flwr import files
from simulations.config import RUNS, ConfigError, RunConfig

END_SECONDS = 2.0
"""For how long a run may still be held after its outcome is known."""
_NOT_SAVED = ("run-dir", "resume")


class RunDirectory:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.toml"
        self.metrics_file = path / "metrics.jsonl"
        self.participation_file = path / "participation.npz"
        self.raster_file = path / "raster.bin"
        self.rounds_file = path / "rounds.jsonl"
        self.nodes_file = path / "nodes.json"
        self.clients_file = path / "clients.npz"
        self.times_file = path / "times.npz"
        self.outcome_file = path / "outcome.json"
        self.progress_file = path / "progress.json"
        self.checkpoint_file = path / "checkpoint.npz"
        self.log_file = path / "log.txt"
        self.stop_file = path / "stop"
        self.states = path / "states"

    @classmethod
    def open(cls, config: RunConfig) -> Self:
        """Open the directory of a run for writing, a new one or one to resume."""
        if config.run_dir:
            run = cls(Path(config.run_dir).expanduser())
        else:
            name = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
            run = cls(RUNS.expanduser() / f"{name}-{config.algorithm.name}-{os.getpid()}")
        run.check(config)
        if not config.resume:
            run._save(config)
        return run

    def settle(self, config: RunConfig) -> None:
        """Save settings in which nothing is left to choose; a resumed run's must be as before."""
        if config.resume:
            config.same_training(self.config())
        self._save(config)

    def _save(self, config: RunConfig) -> None:
        values = {key: value for key, value in config.to_dict().items() if key not in _NOT_SAVED}
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            files.write_atomically(self.config_file, lambda file: tomli_w.dump(values, file))
        except OSError as error:
            raise self._unwritable(error) from None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep others from running the run, too: two would mix what they write.

        It is the log that is locked, so that no lock is left behind, however a process ends.
        """
        try:
            log = self.log_file.open("a")
        except OSError as error:
            raise self._unwritable(error) from None
        with log:
            until = time.monotonic() + END_SECONDS
            while not _locked(log.fileno()):
                if time.monotonic() > until:
                    raise self._refusal("not hold a run that is going on: stop it, or wait")
                time.sleep(0.05)
            yield

    def check(self, config: RunConfig) -> None:
        """Refuse a new run where there is one already, or to resume what cannot be resumed."""
        self.check_free()
        if config.resume:
            config.same_training(self.config())
            if not self.checkpoint_file.is_file():
                raise self._refusal("hold a checkpoint to be resumed")
        elif self.config_file.exists():
            raise self._refusal("not hold a run yet: resume that one, or choose another directory")

    def check_free(self) -> None:
        """Refuse to run what is being run already."""
        if self.log_file.exists():
            with self.held():
                pass

    def _unwritable(self, error: OSError) -> ConfigError:
        reason = error.strerror or error
        return self._refusal(f"be a directory that can be written to ({reason})")

    def _refusal(self, rule: str) -> ConfigError:
        return ConfigError(f"run-dir is {str(self.path)!r}, but must {rule}.")

    def config(self) -> RunConfig:
        """Return the settings of the run that is here."""
        try:
            values = tomllib.loads(self.config_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise self._refusal("be the directory of a run, with a config.toml") from None
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self.config_file} cannot be read: {error}.") from None
        # Before there was a choice it was torch.
        return RunConfig.parse({"kernel": "torch", **values})

    def metrics(self) -> list[dict[str, Any]]:
        """Return all reports so far."""
        return files.read_json_lines(self.metrics_file)

    def report(self, metrics: Mapping[str, Any]) -> None:
        """Add a report."""
        files.append_json_line(self.metrics_file, metrics)

    def forget_reports_after(self, server_round: int) -> None:
        """Drop the reports of rounds that a resumed run will run again."""
        files.drop_rounds_after(self.metrics_file, server_round)

    def finish(self, status: str, server_round: int, sentence: str) -> None:
        """Say how the run ended."""
        outcome = {"status": status, "round": server_round, "sentence": sentence}
        files.save_text(self.outcome_file, files.to_json(outcome))

    def outcome(self) -> dict[str, Any]:
        """Return how the run ended, or how it is going on."""
        return _read_json(self.outcome_file) or {"status": "none", "round": 0, "sentence": ""}

    def progress(self) -> dict[str, Any] | None:
        """Return how far a running run is."""
        return _read_json(self.progress_file)


def _locked(file: int) -> bool:
    """Lock a file and return whether nobody else has; where files have no locks, nobody has."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content
    except (FileNotFoundError, json.JSONDecodeError):
        return None
