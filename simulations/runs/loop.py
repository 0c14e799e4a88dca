"""The round loop: what Flower's `start()` does, with everything that a long experiment needs.

It calls the strategy's public hooks and adds evaluation every k rounds, checkpoints, resume,
progress, and an end in good order: when asked to stop, when the loss is no number any more, when a
node fails. Nothing here depends on the method; Flower's own FedAvg is driven like the others.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message
from flwr.serverapp.strategy import Strategy
from numpy.typing import NDArray

from fedau_flwr import FedAU
from fedau_flwr.availability import AvailabilityGrid, HostGrid
from fedau_flwr.client.store import Arrays
from fedau_flwr.wire.records import decode_all, encode
from simulations.nodes.client_states import flush
from simulations.nodes.evaluator import client_means, client_test_accuracy
from simulations.nodes.worker import LR, STATES
from simulations.runs.checkpoint import load_checkpoint, save_checkpoint
from simulations.runs.directory import RunDirectory, save_arrays, to_json, write_atomically
from simulations.runs.experiment import Experiment
from simulations.runs.failures import RunFailure, check_replies
from simulations.runs.measurement import Measurement, measure
from simulations.runs.participation import ParticipationRecord
from simulations.runs.pause import wait_if_asked
from simulations.runs.strategy import TIMEOUT
from simulations.runs.throughput import Pace
from simulations.runs.times import RoundTimes

log = logging.getLogger("flwr.simulations")

UNCOUNTED_ROUNDS = 20
"""Rounds with participants but without any finite update, after which a run has diverged."""


class RoundLoop:
    """Runs the rounds of one experiment.

    Parameters
    ----------
    experiment : Experiment
        Data, split and participation.
    grid : AvailabilityGrid
        Shows who is there; its nodes are known.
    strategy : Strategy
        The server's side of the method.
    model : Arrays
        The initial model.
    run : RunDirectory
        Where results go.
    """

    def __init__(
        self,
        experiment: Experiment,
        grid: AvailabilityGrid,
        strategy: Strategy,
        model: Arrays,
        run: RunDirectory,
    ) -> None:
        self._experiment = experiment
        self._config = experiment.config
        self._grid = grid
        self._strategy = strategy
        self._run = run
        self._arrays = encode(model)
        self._record = ParticipationRecord(experiment)
        self._round = 0
        self._seconds = 0.0
        self._uncounted = 0
        self._training: list[float] = []
        self._times = RoundTimes()
        self._safe = -1
        self._pace = Pace(0)

    def run(self) -> None:
        """Run to the end, or to the point where there is nothing more to do."""
        try:
            if self._config.resume:
                self._load()
            else:
                self._checkpoint()
            self._pace = Pace(self._round)
            self._run.finish("running", self._round, "The run is going on.")
            status, sentence = self._rounds()
        except (RunFailure, OSError) as error:
            self._run.finish("failed", self._round, f"{error}")
            raise
        finally:
            self._run.stop_file.unlink(missing_ok=True)
        self._run.finish(status, self._round, sentence)
        log.info("%s", sentence)

    def _rounds(self) -> tuple[str, str]:
        """Run the rounds; returns how it ended and a sentence about it."""
        while self._round < self._config.rounds:
            wait_if_asked(self._run, self._round + 1)
            started = time.monotonic()
            self._one_round()
            self._training.append(time.monotonic() - started)
            self._round += 1
            last = self._round == self._config.rounds
            broken = self._broken()
            measurement = None
            if broken or self._config.evaluates(self._round):
                measurement = self._measure(samples=last)
                if not broken and not measurement.finite:
                    broken = "its loss is no finite number any more"
            self._seconds += time.monotonic() - started
            if measurement is not None:
                self._report(measurement)
            stop = self._run.stop_file.exists()
            self._times.close()
            if last or broken or stop or self._round % self._config.checkpoint_rounds == 0:
                with self._times.phase("checkpoint"):
                    self._checkpoint()
            self._show_progress()
            if broken:
                return "diverged", (
                    f"The run ended after round {self._round} of {self._config.rounds}, because "
                    f"{broken}."
                )
            if last and measurement is not None:
                self._save_clients(measurement)
            elif stop:
                return "stopped", (
                    f"The run was stopped after round {self._round} of {self._config.rounds}; "
                    f"go on with `fedau resume {self._run.path}`."
                )
        return "finished", f"The run finished its {self._config.rounds} rounds."

    def _one_round(self) -> None:
        """Let the strategy and the nodes do one round of training."""
        number = self._round + 1
        self._grid.set_round(number)
        decay = self._experiment.task.decay(number - 1)
        config = ConfigRecord({LR: self._config.local_lr * decay, STATES: str(self._run.states)})
        with self._times.phase("configure"):
            messages = self._strategy.configure_train(number, self._arrays, config, self._grid)
        with self._times.phase("exchange"):
            replies = self._grid.send_and_receive(messages, timeout=TIMEOUT)
        with self._times.phase("aggregate"):
            check_replies(replies)
            replied = self._clients(replies)
            arrays, _ = self._strategy.aggregate_train(number, replies)
            if arrays is not None:
                self._arrays = arrays
        with self._times.phase("record"):
            participants = np.flatnonzero(self._experiment.process.active(number - 1))
            counted = self._counted(number, participants, replied)
            self._record.add(participants, counted)
        if len(counted):
            self._uncounted = 0
        elif isinstance(self._strategy, FedAU) and self._strategy.last_round.rejected:
            self._uncounted += 1

    def _clients(self, replies: list[Message]) -> list[int]:
        """Return the clients behind the replies that are no refusals."""
        nodes = [reply.metadata.src_node_id for reply in replies if not reply.has_error()]
        if isinstance(self._grid, HostGrid):
            return [client for node in nodes for client in self._grid.roster(node)]
        return [self._grid.client_numbers[node] for node in nodes]

    def _counted(
        self, number: int, participants: NDArray[np.int64], replied: list[int]
    ) -> NDArray[np.int64]:
        """Return the clients that are in this round's sum."""
        if not isinstance(self._strategy, FedAU):
            return np.array(replied, np.int64)
        counted = self._strategy.ledger.counted
        return np.array([c for c in participants.tolist() if counted.get(c) == number], np.int64)

    def _broken(self) -> str | None:
        """Return why no training brings the model back from where it has gone, if that is so."""
        if self._uncounted >= UNCOUNTED_ROUNDS:
            return f"in {UNCOUNTED_ROUNDS} rounds with participants no update was a finite number"
        if all(np.isfinite(value).all() for value in decode_all(self._arrays).values()):
            return None
        return "its model has values that are no finite numbers"

    def _measure(self, *, samples: bool) -> Measurement:
        with self._times.phase("evaluate"):
            return measure(
                self._grid.everyone(),
                self._experiment.task,
                self._arrays,
                timeout=TIMEOUT,
                samples=samples,
                # Of one node per client, as many as can work at a time; hosts are that many.
                shards=None if self._config.clients_per_node == 0 else os.cpu_count(),
            )

    def _report(self, measurement: Measurement) -> None:
        self._run.report(
            {
                "round": self._round,
                **measurement.metrics(),
                **self._record.since_last_report(self._round),
                "round_seconds": round(float(np.median(self._training)), 4),
                "seconds": round(self._seconds, 3),
            }
        )
        self._training.clear()
        train, test = measurement.train, measurement.test
        log.info(
            "Round %d/%d: train %.1f %% (loss %.3f), test %.1f %% (loss %.3f); %s",
            self._round,
            self._config.rounds,
            100 * train.accuracy,
            train.loss,
            100 * test.accuracy,
            test.loss,
            self._pace.words(self._round, self._config.rounds),
        )

    def _save_clients(self, measurement: Measurement) -> None:
        """Write the final loss and accuracies of each client."""
        samples, split = measurement.samples, self._experiment.split
        if samples is None:
            return
        save_arrays(
            self._run.clients_file,
            {
                "loss": client_means(split, samples.losses),
                "train_accuracy": client_means(split, samples.scores),
                "test_accuracy": client_test_accuracy(split, measurement.test),
            },
        )

    def _checkpoint(self) -> None:
        """Make everything durable that a resumed run needs, and tell the clients so."""
        strategy = self._strategy
        state: dict[str, Any] = {
            "round": self._round,
            "seconds": self._seconds,
            "uncounted": self._uncounted,
            "model": decode_all(self._arrays),
            "record": self._record.state_dict(),
            "strategy": strategy.state_dict() if isinstance(strategy, FedAU) else {},
        }
        try:
            flush(self._run.states)
            save_arrays(self._run.times_file, self._times.arrays())
            save_arrays(self._run.participation_file, self._record.arrays())
            save_checkpoint(self._run.checkpoint_file, state)
        except OSError as error:
            last = f"the one of round {self._safe} is still there" if self._safe >= 0 else "none is"
            raise RunFailure(
                f"The checkpoint of round {self._round} could not be written to {self._run.path} "
                f"({error.strerror or error}); {last}."
            ) from error
        self._safe = self._round
        if isinstance(strategy, FedAU):
            strategy.checkpointed(self._round)

    def _load(self) -> None:
        """Go on from the last checkpoint."""
        state: Mapping[str, Any] = load_checkpoint(self._run.checkpoint_file)
        self._round = self._safe = state["round"]
        self._seconds = state["seconds"]
        self._uncounted = state["uncounted"]
        self._arrays = encode(state["model"])
        self._record.load_state_dict(state["record"])
        if isinstance(self._strategy, FedAU):
            self._strategy.load_state_dict(state["strategy"])
        self._run.forget_reports_after(self._round)
        log.info("Going on after round %d of %s.", self._round, self._run.path)

    def _show_progress(self) -> None:
        if self._pace.due():
            progress = {"round": self._round, "rounds": self._config.rounds}
            text = to_json(progress | self._pace.numbers(self._round, self._config.rounds)).encode()
            write_atomically(self._run.progress_file, lambda file: file.write(text))
