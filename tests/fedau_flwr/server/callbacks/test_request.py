import os
import signal
import threading

import numpy as np
import pytest

from fedau_flwr import RoundLoop
from fedau_flwr.server.callbacks import Callback, StopOnRequest, WaitForNodes, conditions
from tests.fedau_flwr.federation import Federation, record, towards, training_app
from tests.fedau_flwr.server.test_loop import fedavg

START = np.float32([1, 2])


class In(Callback):
    """Does something in a round."""

    def __init__(self, number, action):
        self.number, self.action = number, action

    def before_round(self, loop):
        if loop.round == self.number - 1:
            self.action()


def loop(*callbacks):
    grid = Federation(training_app(towards(np.zeros((2, 2))), []), 2)
    return RoundLoop(fedavg(), grid, callbacks)


def test_a_file_stops_after_the_running_round_and_is_taken_away(tmp_path):
    file = tmp_path / "stop"
    this = loop(In(3, file.touch), StopOnRequest(file, advice="go on tomorrow"))
    this.run(record(x=START), 9)
    assert (this.status, this.round) == ("stopped", 3)
    assert this.sentence == "The run was stopped after round 3 of 9; go on tomorrow."
    assert not file.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_does_so_too_and_a_second_one_does_what_it_always_did(number):
    before = signal.getsignal(number)
    heard = []

    class Hear(Callback):
        def on_start(self, loop):
            signal.signal(number, lambda *_: heard.append(loop.round))

    class Twice(Callback):
        def after_round(self, loop, report):
            if loop.round == 2:
                os.kill(os.getpid(), number)

    this = loop(Hear(), In(2, lambda: os.kill(os.getpid(), number)), StopOnRequest(), Twice())
    try:
        this.run(record(x=START), 9)
        assert (this.status, this.round) == ("stopped", 2)
        assert heard == [2]
    finally:
        signal.signal(number, before)


def test_handlers_are_given_back_when_nobody_asked():
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    loop(StopOnRequest()).run(record(x=START), 1)
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before


def test_other_threads_have_no_signals_but_files(tmp_path):
    file = tmp_path / "stop"
    this = loop(In(2, file.touch), StopOnRequest(file))
    thread = threading.Thread(target=this.run, args=(record(x=START), 9))
    thread.start()
    thread.join()
    assert (this.status, this.round) == ("stopped", 2)


def test_a_request_ends_the_wait_for_nodes(tmp_path, monkeypatch):
    monkeypatch.setattr(conditions, "LOOK_SECONDS", 0.0)
    file = tmp_path / "stop"
    request = StopOnRequest(file)
    this = loop(WaitForNodes(2, request=request), request)
    looks = []

    def connected():
        looks.append(len(looks))
        if len(looks) == 5:
            file.touch()
        return [1]

    monkeypatch.setattr(this.grid, "get_node_ids", connected)
    this.run(record(x=START), 9)
    assert (this.status, this.round) == ("stopped", 0)
    assert len(looks) == 5
