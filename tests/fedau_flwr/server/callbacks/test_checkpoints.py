"""Checkpoint files, and runs that are killed and go on."""

import os
import random

import numpy as np
import pytest
from flwr.app import ConfigRecord

from fedau_flwr import MIFA, FedAU, RoundLoop
from fedau_flwr.server.callbacks import Callback, Checkpoints
from fedau_flwr.server.callbacks.checkpoints import load_checkpoint, save_checkpoint
from fedau_flwr.server.loop import RunFailure
from tests.fedau_flwr.federation import Federation, record, towards, training_app, values
from tests.fedau_flwr.server.test_loop import fedavg


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    state = {
        "round": 3,
        "model": {"w": np.arange(6, dtype=np.float32).reshape(2, 3)},
        "strategy": {"ledger": {"counted": {4: 2, 17: 0}, "attempts": [(1, 1), (9, 4)]}},
        "nothing": {},
    }
    save_checkpoint(tmp_path / "c.npz", state)
    loaded = load_checkpoint(tmp_path / "c.npz")
    np.testing.assert_array_equal(loaded["model"].pop("w"), state["model"].pop("w"))
    assert loaded == {**state, "strategy": {"ledger": {"counted": {4: 2, 17: 0},
                                                       "attempts": [[1, 1], [9, 4]]}}}  # fmt: skip


def test_a_broken_checkpoint_is_named_in_one_sentence(tmp_path):
    path = tmp_path / "c.npz"
    save_checkpoint(path, {"round": 1, "x": np.zeros(1000)})
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"c\.npz cannot be read"):
        load_checkpoint(path)


CLIENTS, ROUNDS = 4, 11
START = {"x": np.float32([1.0, -2.0, 0.5]), "steps": np.int64(3)}


class Killed(BaseException):
    """What ends a process."""


class Kill(Callback):
    """Ends the process once the clients have trained and answered in a round."""

    def __init__(self, number):
        self.number = number

    def after_round(self, loop, report):
        if loop.round == self.number:
            raise Killed


class Sum(Callback):
    """Counts what is in the model, wherever in the list it is."""

    def __init__(self):
        self.rounds = []

    def after_round(self, loop, report):
        self.rounds.append((loop.round, report.counted))

    def state_dict(self):
        return {"rounds": self.rounds}

    def load_state_dict(self, state):
        self.rounds = [tuple(entry) for entry in state["rounds"]]


class Flaky(Federation):
    """Clients come and go by round, so that every client has a weight and a history of its own."""

    def set_round(self, number):
        random.seed(number)  # Flower adds up in the order in which it has drawn the nodes
        self.present = {c for c in range(CLIENTS) if number % (c + 1) == 0}
        self.lost = {0} if number % 3 == 0 else set()


def federation(mods=None):
    targets = np.float32([[1, 2, 3], [-3, 0, 2], [9, 9, 9], [0.1, 0.7, -4]])
    return Flaky(training_app(towards(targets, rate=0.3), mods), CLIENTS)


def make(kind):
    """Return a strategy and the mods of its clients."""
    if kind == "flower":
        return fedavg(), []
    return (FedAU if kind == "fedau" else MIFA)(num_clients=CLIENTS), None


@pytest.mark.parametrize("kind", ["fedau", "mifa", "flower"])
@pytest.mark.parametrize("killed_after", [[1], [7], [5, 9]])
def test_killed_and_resumed_is_the_uninterrupted_run_bit_for_bit(tmp_path, kind, killed_after):
    strategy, mods = make(kind)
    straight, counted = RoundLoop(strategy, federation(mods), [total := Sum()]), total
    expected = values(straight.run(record(**START), ROUNDS).arrays)
    grid = federation(mods)
    for number in killed_after:
        # The clients are the same ones: they have been further than the checkpoint.
        callbacks = [Checkpoints(tmp_path, every=3), Sum(), Kill(number)]
        loop = RoundLoop(make(kind)[0], grid, callbacks)
        with pytest.raises(Killed):
            loop.run(record(**START), ROUNDS)
        assert loop.status == "failed"
    total = Sum()
    loop = RoundLoop(make(kind)[0], grid, [Checkpoints(tmp_path, every=3), total])
    found = values(loop.run(record(**START), ROUNDS).arrays)
    assert loop.status == "finished"
    assert loop.attempt == 1 + len(killed_after)
    assert total.rounds == counted.rounds
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert value.dtype == found[name].dtype
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    assert not np.array_equal(expected["x"], START["x"])


def test_clients_are_told_only_when_file_and_directory_are_on_the_disk(tmp_path, monkeypatch):
    events = []
    strategy = FedAU(num_clients=CLIENTS)
    run = tmp_path / "run"
    names = {}

    def fsync(handle):
        inode = os.fstat(handle).st_ino
        names.update({entry.stat().st_ino: entry.name for entry in run.iterdir()})
        names[run.stat().st_ino] = "directory"
        events.append("file" if "checkpoint" in names.get(inode, "") else names.get(inode))

    def told(server_round):
        assert load_checkpoint(run / "checkpoint.npz")["round"] == server_round
        events.append(server_round)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(strategy, "checkpointed", told)
    RoundLoop(strategy, federation(), [Checkpoints(run, every=2)]).run(record(**START), 3)
    each = ["file", "directory"]
    assert [event for event in events if event is not None] == [*each, 0, *each, 2, *each, 3]


def test_state_of_clients_follows_the_checkpoints(tmp_path):
    strategy = FedAU(num_clients=CLIENTS)
    safe = []

    class Look(Callback):
        def before_round(self, loop):
            safe.append(strategy.ledger.safe)

    callbacks = [Checkpoints(tmp_path, every=2), Look()]
    RoundLoop(strategy, federation(), callbacks).run(record(**START), 5)
    assert safe == [0, 0, 2, 2, 4]
    assert strategy.ledger.safe == 5


def test_a_disk_that_is_full_is_one_sentence_and_leaves_the_last_one(tmp_path, monkeypatch):
    def full(file, **arrays):
        raise OSError(28, "No space left on device")

    class Fill(Callback):
        def after_round(self, loop, report):
            if loop.round == 4:
                monkeypatch.setattr(np, "savez", full)

    strategy = FedAU(num_clients=CLIENTS)
    loop = RoundLoop(strategy, federation(), [Checkpoints(tmp_path, every=2), Fill()])
    with pytest.raises(RunFailure) as failure:
        loop.run(record(**START), 6)
    assert str(failure.value) == loop.sentence
    assert loop.sentence == (
        f"The checkpoint of round 4 could not be written to {tmp_path} (No space left on "
        "device); the one of round 2 is still there."
    )
    assert strategy.ledger.safe == 2
    assert load_checkpoint(tmp_path / "checkpoint.npz")["round"] == 2


def test_another_model_in_the_directory_is_refused(tmp_path):
    RoundLoop(fedavg(), federation([]), [Checkpoints(tmp_path)]).run(record(**START), 1)
    loop = RoundLoop(fedavg(), federation([]), [Checkpoints(tmp_path)])
    with pytest.raises(ValueError, match="is of another model; choose another directory"):
        loop.run(record(x=np.zeros(2, np.float32)), 2)


def test_without_resume_the_directory_is_used_anew(tmp_path):
    for _ in range(2):
        callbacks = [Checkpoints(tmp_path, resume=False)]
        loop = RoundLoop(fedavg(), federation([]), callbacks, train_config=ConfigRecord({"lr": 1}))
        loop.run(record(**START), 1)
        assert (loop.attempt, loop.round) == (1, 1)


def test_more_rounds_follow_those_that_are_done(tmp_path):
    for rounds in (2, 5, 5):
        loop = RoundLoop(fedavg(), federation([]), [Checkpoints(tmp_path)])
        loop.run(record(**START), rounds)
        assert (loop.round, loop.status) == (rounds, "finished")
