"""Messages that are sent ahead: never too many, to who has the least to do, and none is lost."""

import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp.client_app import ClientAppException
from flwr.server.superlink.fleet.vce.backend.raybackend import RayBackend
from flwr.supercore.task_identity import TaskIdentity

from fedau_flwr import _flower
from simulations.runs.ahead import AHEAD, BusyWorkers, busy_workers


class Worker:
    """Stands for an actor of Ray; its calls are answered by the test."""

    def __init__(self):
        self.run = SimpleNamespace(remote=self._remote)
        self.calls = []

    def _remote(self, app_fn, message, client, context):
        call = SimpleNamespace(app=app_fn, message=message, client=client, context=context)
        call.result = Future()
        call.future = lambda: call.result
        self.calls.append(call)
        return call


@pytest.fixture
def backend():
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    return SimpleNamespace(pool=SimpleNamespace(pool=[Worker(), Worker()]), app_fn="app")


def asked(node):
    message = Message(RecordDict(), node, "train")
    message.metadata.__dict__["_message_id"] = f"asked-{node}"
    context = Context(1, node, {"partition-id": node}, RecordDict(), {})
    return message, context


def answer(call):
    """Answer as an actor does, with a context that has gone through pickle."""
    state = RecordDict({"kept": ConfigRecord({"node": call.message.metadata.dst_node_id})})
    after = Context(1, call.context.node_id, call.context.node_config, state, {})
    call.result.set_result((call.client, Message(RecordDict(), reply_to=call.message), after))


def in_thread(workers, backend, *given):
    thread = threading.Thread(target=workers.process_message, args=(backend, *given))
    thread.start()
    return thread


def test_every_worker_has_the_next_message_and_no_more(backend):
    replies = []
    workers = BusyWorkers(replies.append)
    for node in range(2 * AHEAD):
        message, context = asked(node)
        assert workers.process_message(backend, message, context) == (None, context)
    one, other = backend.pool.pool
    assert [[call.client for call in worker.calls] for worker in (one, other)] == [
        ["0", "2"],
        ["1", "3"],
    ]
    thread = in_thread(workers, backend, *asked(9))
    thread.join(timeout=0.2)
    assert thread.is_alive()
    answer(other.calls[0])
    thread.join(timeout=10)
    assert [call.client for call in other.calls] == ["1", "3", "9"]
    assert len(one.calls) == AHEAD
    assert [reply.metadata.src_node_id for reply in replies] == [1]


def test_a_reply_has_an_id_and_its_node_keeps_its_state(backend):
    replies = []
    workers = BusyWorkers(replies.append)
    message, context = asked(5)
    workers.process_message(backend, message, context)
    (call,) = backend.pool.pool[0].calls
    assert (call.app, call.message, call.client) == ("app", message, "5")
    answer(call)
    assert replies[0].metadata.reply_to_message_id == "asked-5"
    assert replies[0].metadata.message_id
    assert context.state.config_records["kept"]["node"] == 5


def test_a_node_answers_one_message_after_the_other(backend):
    workers = BusyWorkers(lambda _: None)
    message, context = asked(5)
    workers.process_message(backend, message, context)
    thread = in_thread(workers, backend, message, context)
    thread.join(timeout=0.2)
    assert thread.is_alive()
    answer(backend.pool.pool[0].calls[0])
    thread.join(timeout=10)
    calls = [call for worker in backend.pool.pool for call in worker.calls]
    assert len(calls) == 2
    assert "kept" in calls[1].context.state


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ClientAppException("no data"), "CLIENT_APP_RAISED_EXCEPTION"),
        (OSError("no data"), "UNKNOWN"),
    ],
)
def test_a_node_that_fails_answers_with_the_engines_error(backend, error, code):
    replies = []
    workers = BusyWorkers(replies.append)
    workers.process_message(backend, *asked(5))
    backend.pool.pool[0].calls[0].result.set_exception(error)
    assert replies[0].error.code == getattr(_flower.ErrorCode, code)
    assert replies[0].error.reason.startswith(f"{type(error)}:<'")
    assert "no data" in replies[0].error.reason
    workers.process_message(backend, *asked(5))  # neither the node nor its worker is taken


def test_a_message_that_cannot_be_sent_takes_no_place(backend):
    workers = BusyWorkers(lambda _: None)
    first = backend.pool.pool[0]
    working, first.run = first.run, None
    with pytest.raises(AttributeError):
        workers.process_message(backend, *asked(5))
    first.run = working
    workers.process_message(backend, *asked(5))
    assert [call.client for call in first.calls] == ["5"]


def test_a_node_that_is_known_is_asked_without_the_engine(backend):
    workers = BusyWorkers(lambda _: None)
    one, other = backend.pool.pool
    assert not workers.send_now(asked(5)[0])  # nobody knows its context yet
    message, context = asked(5)
    workers.process_message(backend, message, context)
    assert not workers.send_now(message)  # it has not answered yet
    answer(one.calls[0])
    assert workers.send_now(message)
    assert (one.calls[1].message, one.calls[1].client) == (message, "5")
    assert "kept" in one.calls[1].context.state
    for node in range(2 * AHEAD - 1):
        workers.process_message(backend, *asked(node))
    answer(other.calls[0])
    workers.process_message(backend, *asked(9))
    assert not workers.send_now(asked(0)[0])  # every worker has enough to do
    workers.close()
    answer(other.calls[1])
    assert not workers.send_now(asked(0)[0])


def test_what_cannot_be_sent_at_once_is_left_to_the_engine(backend):
    workers = BusyWorkers(lambda _: None)
    message, context = asked(5)
    first = backend.pool.pool[0]
    workers.process_message(backend, message, context)
    answer(first.calls[0])
    working, first.run = first.run, None
    assert not workers.send_now(message)
    first.run = working
    assert workers.send_now(message)
    assert len(first.calls) == 2


def test_the_end_of_a_run_lets_go_of_the_engine(backend):
    workers = BusyWorkers(lambda _: None)
    message, context = asked(5)
    workers.process_message(backend, message, context)
    thread = in_thread(workers, backend, message, context)
    workers.close()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert sum(len(worker.calls) for worker in backend.pool.pool) == 1


def test_flower_has_its_own_method_back_after_a_run():
    own = RayBackend.process_message
    with busy_workers(lambda _: None):
        assert RayBackend.process_message is not own
    assert RayBackend.process_message is own


def changed(self, message):
    """Do what a later Flower might."""


def test_another_flower_keeps_its_own_way_and_the_log_says_so(monkeypatch, caplog):
    caplog.set_level("INFO")
    monkeypatch.setattr(RayBackend, "process_message", changed)
    with busy_workers(lambda _: None):
        assert RayBackend.process_message is changed
    assert "RayBackend.process_message takes ('self', 'message')." in caplog.text
