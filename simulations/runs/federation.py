"""The server of a real federation: rounds with whoever is there, until the last one.

A round asks the nodes that are connected and ends with the last reply or at ``round-deadline``;
while nobody is there, no round begins.
The run's directory has what an experiment's has, as far as a server can know it, and
``metrics.prom`` (see `simulations.runs.prometheus`). With ``resume`` the training goes on from the
directory's checkpoint, and nodes go back to what they knew then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message
from flwr.serverapp import Grid

from fedau_flwr import FedAU
from fedau_flwr.server.deadlines import PunctualGrid
from fedau_flwr.server.report import RoundReport
from fedau_flwr.wire.records import decode_all, encode
from simulations.config import LEAST_SECURE, ConfigError, RunConfig
from simulations.nodes.deployed_data import server_test_set
from simulations.nodes.evaluator import Evaluation, Evaluator
from simulations.nodes.resident import ResidentModel, initial_parameters
from simulations.nodes.worker import LR
from simulations.runs.checkpoint import load_checkpoint, save_checkpoint
from simulations.runs.directory import RunDirectory
from simulations.runs.log import run_log
from simulations.runs.prometheus import Exposition
from simulations.runs.strategy import build_strategy
from simulations.tasks import DataError, Part

log = logging.getLogger("flwr.simulations")

LOOK_SECONDS = 1.0
"""Between two looks for nodes while there are too few."""

WORD_SECONDS = 60.0
"""Between two lines in the log about that."""


def run_federation(grid: Grid, config: RunConfig) -> RunDirectory:
    """Train with the nodes of `grid` and return the run's directory."""
    if not config.algorithm.deployable:
        raise ConfigError(
            f"method is {config.method!r}, but must be another one on a deployment, where nobody "
            "knows what it needs."
        )
    config = replace(config, pattern="deployment", reply_loss=0.0)
    run = RunDirectory.open(config)
    with run_log(run.log_file, every_round=True):
        log.info("The results go to %s.", run.path)
        Training(PunctualGrid(grid), config, run).run()
    return run


class Training:
    """One training over the nodes of `grid`."""

    def __init__(self, grid: Grid, config: RunConfig, run: RunDirectory) -> None:
        self._grid = grid
        self._config = config
        self._run = run
        self._strategy = build_strategy(config)
        self._arrays = encode(initial_parameters(config.task, seed=config.seed))
        self._round = 0
        self._seconds = 0.0
        self._test = _open_test_set(config)
        self._exposition = Exposition(
            run.path / "metrics.prom", run=str(run.path), rounds=config.rounds
        )
        self._since_report: list[RoundReport] = []

    def run(self) -> None:
        """Run to the last round, or until a file ``stop`` appears in the run's directory."""
        if self._config.resume:
            self._load()
        else:
            self._checkpoint()
        self._run.finish("running", self._round, "The run is going on.")
        try:
            self._check_population()
            status, sentence = self._rounds()
        except Exception as error:
            self._run.finish("failed", self._round, str(error))
            raise
        finally:
            self._run.stop_file.unlink(missing_ok=True)
        self._run.finish(status, self._round, sentence)
        log.info("%s", sentence)

    def _check_population(self) -> None:
        connected = len(list(self._grid.get_node_ids()))
        if connected > self._config.clients:
            raise ConfigError(
                f"clients is {self._config.clients}, but must be at least {connected}, the number "
                "of nodes that are connected."
            )
        log.info(
            "%d of %d clients are connected. The number of all clients is the run config's "
            "`clients`: too large a number makes the steps too small.",
            connected,
            self._config.clients,
        )

    def _rounds(self) -> tuple[str, str]:
        rounds = self._config.rounds
        while self._round < rounds:
            if not self._wait_for_nodes():
                self._checkpoint()
                return self._stopped()
            report = self._one_round()
            self._seconds += report.seconds
            self._since_report.append(report)
            test = self._evaluate() if self._config.evaluates(self._round) else None
            self._exposition.add(report, attempt=self._attempt, test=test)
            stop = self._run.stop_file.exists()
            last = self._round == rounds
            if last or stop or self._round % self._config.checkpoint_rounds == 0:
                self._checkpoint()
            if stop and not last:
                return self._stopped()
        return "finished", f"The run finished its {rounds} rounds."

    def _stopped(self) -> tuple[str, str]:
        return "stopped", (
            f"The run was stopped after round {self._round} of {self._config.rounds}; go on with "
            f"the same `flwr run` and 'run-dir=\"{self._run.path}\" resume=true' in its run "
            f"config, or after `fedau deploy local` with `fedau resume {self._run.path}`."
        )

    def _wait_for_nodes(self) -> bool:
        """Wait until a round makes sense; returns whether it does, or the run is to stop."""
        least = LEAST_SECURE if self._config.secure_sum else 1
        silent_until = 0.0
        while (connected := len(list(self._grid.get_node_ids()))) < least:
            if self._run.stop_file.exists():
                return False
            if time.monotonic() >= silent_until:
                log.info(
                    "Round %d waits for nodes: %d connected, at least %d needed.",
                    self._round + 1,
                    connected,
                    least,
                )
                silent_until = time.monotonic() + WORD_SECONDS
            time.sleep(LOOK_SECONDS)
        return True

    def _one_round(self) -> RoundReport:
        number = self._round + 1
        began = time.monotonic()
        lr = self._config.local_lr * self._config.task.decay(number - 1)
        messages = list(
            self._strategy.configure_train(number, self._arrays, ConfigRecord({LR: lr}), self._grid)
        )
        replies = list(self._grid.send_and_receive(messages, timeout=self._config.round_deadline))
        errors = sum(reply.has_error() for reply in replies)
        arrays, _ = self._strategy.aggregate_train(number, replies)
        self._arrays = self._arrays if arrays is None else arrays
        self._round = number
        if isinstance(self._strategy, FedAU) and self._strategy.last_round is not None:
            return self._strategy.last_round
        return _plain_report(number, messages, replies, errors, time.monotonic() - began)

    @property
    def _attempt(self) -> int:
        return len(self._strategy.ledger.attempts) if isinstance(self._strategy, FedAU) else 1

    def _evaluate(self) -> dict[str, float] | None:
        """Evaluate on the server's own test set, and report the rounds since the last time."""
        result = self._measure()
        reports, self._since_report = self._since_report, []
        self._run.report(
            {
                "round": self._round,
                # Nobody but the nodes themselves sees training samples.
                "train_loss": None,
                "train_accuracy": None,
                "test_loss": None if result is None else result.loss,
                "test_accuracy": None if result is None else result.accuracy,
                "test_class_accuracy": [] if result is None else result.class_accuracy,
                "participants": float(np.mean([report.asked for report in reports])),
                "counted": float(np.mean([report.counted for report in reports])),
                "round_seconds": round(float(np.median([r.seconds for r in reports])), 4),
                "seconds": round(self._seconds, 3),
            }
        )
        if result is None:
            return None
        log.info(
            "Round %d/%d: test %.1f %% (loss %.3f)",
            self._round,
            self._config.rounds,
            100 * result.accuracy,
            result.loss,
        )
        return {"loss": result.loss, "accuracy": result.accuracy}

    def _measure(self) -> Evaluation | None:
        if self._test is None:
            return None
        evaluator = Evaluator(
            self._config.task, model=ResidentModel(self._config.task, device=self._config.device)
        )
        return evaluator.evaluate(decode_all(self._arrays), self._test)

    def _checkpoint(self) -> None:
        strategy = self._strategy
        state: dict[str, Any] = {
            "round": self._round,
            "seconds": self._seconds,
            "model": decode_all(self._arrays),
            "strategy": strategy.state_dict() if isinstance(strategy, FedAU) else {},
        }
        save_checkpoint(self._run.checkpoint_file, state)
        if isinstance(strategy, FedAU):
            strategy.checkpointed(self._round)

    def _load(self) -> None:
        state: Mapping[str, Any] = load_checkpoint(self._run.checkpoint_file)
        self._round = state["round"]
        self._seconds = state["seconds"]
        self._arrays = encode(state["model"])
        if isinstance(self._strategy, FedAU):
            self._strategy.load_state_dict(state["strategy"])
        self._run.forget_reports_after(self._round)
        log.info("Going on after round %d of %s.", self._round, self._run.path)


def _open_test_set(config: RunConfig) -> Part | None:
    try:
        return server_test_set(config)
    except DataError as error:
        log.warning("The model will not be evaluated, since the server has no test data: %s", error)
        return None


def _plain_report(
    number: int, messages: list[Message], replies: list[Message], errors: int, seconds: float
) -> RoundReport:
    """Return the report of a round of Flower's own FedAvg, which counts every reply."""
    return RoundReport(
        round=number,
        asked=len(messages),
        counted=len(replies) - errors,
        rejected=errors,
        absent=len(messages) - len(replies),
        seconds=seconds,
    )
