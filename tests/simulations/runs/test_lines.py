"""Lines to workers: one call for all messages, answers in their order, and an end that is told."""

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import SimpleNamespace

import pytest
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp.client_app import ClientAppException
from flwr.simulation.ray_transport.ray_actor import VirtualClientEngineActor
from flwr.supercore.task_identity import TaskIdentity

from simulations.runs import lines
from simulations.runs.lines import Calls, Line, reached
from simulations.runs.shared_arrays import DIRECTORY


class Actor:
    """Flower's actor in a thread, which may begin late and end before its call does."""

    def __init__(self, *, begins=True):
        self.run = SimpleNamespace(remote=self._remote)
        self.began, self.calls = threading.Event(), []
        if begins:
            self.began.set()

    def _remote(self, *given):
        call: Future = Future()
        self.calls.append(call)
        threading.Thread(target=self._run, args=(call, given), daemon=True).start()
        return SimpleNamespace(future=lambda: call)

    def _run(self, call, given):
        self.began.wait(10)
        try:
            found = VirtualClientEngineActor().run(*given)
        except Exception as error:
            if not call.done():
                call.set_exception(error)
        else:
            if not call.done():
                call.set_result(found)


def app(message, context):
    """Count the messages of a node in its context."""
    node = message.metadata.dst_node_id
    if node == 13:
        raise OSError("no data at node 13")
    if node == 17:
        return threading.Lock()
    before = context.state.config_records.get("seen", ConfigRecord({"count": 0}))["count"]
    context.state["seen"] = ConfigRecord({"count": before + 1})
    if "load" in message.content:
        context.run_config = {"load": message.content["load"]["bytes"]}
    return Message(RecordDict({"of": ConfigRecord({"node": node})}), reply_to=message)


def load_app():
    return app


def asked(node):
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    message = Message(RecordDict(), node, "train")
    message.metadata.__dict__["_message_id"] = f"asked-{node}"
    return message, str(node), Context(1, node, {"partition-id": node}, RecordDict(), {})


@pytest.fixture
def line_to(tmp_path):
    made = []

    def line(actor):
        made.append(Line(actor, str(tmp_path)))
        return made[-1]

    yield line
    for one in made:
        one.close()
    for thread in threading.enumerate():
        if "_listen" in thread.name:
            thread.join(10)
    assert not list(tmp_path.iterdir())


def test_one_call_serves_all_messages_in_their_order(line_to):
    actor = Actor()
    line = line_to(actor)
    answers = [line.send(load_app, *asked(node)) for node in (5, 7, 6)]
    for node, answer in zip((5, 7, 6), answers, strict=True):
        client, reply, context = answer.result(10)
        assert (client, reply.content["of"]["node"]) == (str(node), node)
        assert reply.metadata.reply_to_message_id == f"asked-{node}"
        assert context.state["seen"]["count"] == 1
    message, client, _ = asked(5)
    again = line.send(load_app, message, client, answers[0].result()[2]).result(10)
    assert again[2].state["seen"]["count"] == 2
    assert len(actor.calls) == 1


def test_messages_wait_for_a_worker_that_is_not_there_yet(line_to):
    actor = Actor(begins=False)
    line = line_to(actor)
    answers = [line.send(load_app, *asked(node)) for node in range(3)]
    assert not wait(answers, timeout=0.1).done
    actor.began.set()
    assert [answer.result(10)[0] for answer in answers] == ["0", "1", "2"]


def test_many_threads_get_their_own_answers(line_to):
    line = line_to(Actor())
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda node: line.send(load_app, *asked(node)), range(100, 200)))
    assert [answer.result(10)[0] for answer in answers] == [str(n) for n in range(100, 200)]


def test_an_app_that_fails_is_told_with_its_place_and_the_line_goes_on(line_to):
    line = line_to(Actor())
    failed = line.send(load_app, *asked(13)).exception(10)
    assert type(failed) is ClientAppException
    assert str(failed) == "\nException ClientAppException occurred. Message: no data at node 13"
    assert "in app\n" in failed.__notes__[0]
    assert line.send(load_app, *asked(14)).result(10)[0] == "14"


def test_what_ray_says_about_the_end_of_a_worker_is_the_answer_to_all(line_to):
    actor = Actor(begins=False)
    line = line_to(actor)
    answers = [line.send(load_app, *asked(node)) for node in range(2)]
    actor.calls[0].set_exception(ConnectionResetError("The actor died."))
    answers.append(line.send(load_app, *asked(2)))
    assert [str(answer.exception(10)) for answer in answers] == ["The actor died."] * 3


def test_a_worker_that_is_dead_already_is_an_answer(line_to):
    dead: Future = Future()
    dead.set_exception(ConnectionResetError("The actor died."))
    actor = SimpleNamespace(
        run=SimpleNamespace(remote=lambda *_: SimpleNamespace(future=lambda: dead))
    )
    line = line_to(actor)
    for node in range(2):
        assert str(line.send(load_app, *asked(node)).exception(10)) == "The actor died."


def test_a_reply_that_cannot_travel_is_an_error_of_its_app(line_to):
    line = line_to(Actor())
    assert "pickle" in str(line.send(load_app, *asked(17)).exception(10))
    assert line.send(load_app, *asked(18)).result(10)[0] == "18"


def test_an_actor_that_cannot_be_called_is_called_again_for_the_next_message(line_to):
    actor = Actor()
    line = line_to(actor)
    actor.run.remote, works = None, actor.run.remote
    with pytest.raises(TypeError):
        line.send(load_app, *asked(1))
    actor.run.remote = works
    assert line.send(load_app, *asked(2)).result(10)[0] == "2"


def test_a_line_that_cannot_be_taken_up_is_an_answer(line_to, monkeypatch):
    def refuse(self):
        raise OSError("too many open files")

    monkeypatch.setattr(lines.Listener, "accept", refuse)
    line = line_to(Actor())
    assert str(line.send(load_app, *asked(1)).exception(10)) == "too many open files"


@pytest.mark.parametrize("begins", [True, False])
def test_who_sends_waits_for_no_app(line_to, begins):
    """Large messages and replies, more of them than a socket holds."""
    actor = Actor(begins=begins)
    line = line_to(actor)
    answers = []
    for node in range(100, 110):
        message, client, context = asked(node)
        message.content["load"] = ConfigRecord({"bytes": b"x" * 1_000_000})
        answers.append(line.send(load_app, message, client, context))
    actor.began.set()
    assert [answer.result(10)[0] for answer in answers] == [str(n) for n in range(100, 110)]
    assert len(answers[0].result()[2].run_config["load"]) == 1_000_000


def test_nothing_begins_after_the_end(line_to, tmp_path):
    actor = Actor()
    line = line_to(actor)
    line.close()
    assert isinstance(line.send(load_app, *asked(1)).exception(10), EOFError)
    assert not actor.calls
    assert not list(tmp_path.iterdir())


def test_a_message_that_cannot_travel_is_refused_and_no_other_is_lost(line_to):
    line = line_to(Actor())
    assert line.send(load_app, *asked(1)).result(10)[0] == "1"
    message, client, context = asked(2)
    context.run_config = {"unspeakable": threading.Lock()}
    with pytest.raises(TypeError, match="pickle"):
        line.send(load_app, message, client, context)
    assert line.send(load_app, *asked(3)).result(10)[0] == "3"


@pytest.mark.parametrize("begins", [True, False])
def test_the_end_of_a_run_lets_the_worker_go(line_to, begins):
    actor = Actor(begins=begins)
    line = line_to(actor)
    before = set(threading.enumerate())
    answer = line.send(load_app, *asked(1))
    if begins:
        answer.result(10)
    line.close()
    assert isinstance(line.send(load_app, *asked(2)).exception(10), EOFError)
    actor.began.set()  # a worker that comes when all is over finds nobody, and is done as well
    assert wait(actor.calls, timeout=10).done
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert set(threading.enumerate()) <= before


def test_only_workers_on_this_machine_have_lines(monkeypatch, tmp_path):
    monkeypatch.setenv(DIRECTORY, str(tmp_path))
    assert type(reached(Actor())) is Line
    monkeypatch.delenv(DIRECTORY)
    actor = Actor()
    worker = reached(actor)
    assert type(worker) is Calls
    for node in range(2):
        assert worker.send(load_app, *asked(node)).result(10)[0] == str(node)
    worker.close()
    assert len(actor.calls) == 2
    assert DIRECTORY not in os.environ
