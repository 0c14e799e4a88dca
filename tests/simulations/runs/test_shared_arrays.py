"""Arrays in files: written once for all nodes, given back to the last bit, and for nobody else."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from simulations.runs.shared_arrays import DIRECTORY, RECORD, SharedArrays, shared_arrays


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "arrays"))
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    return SharedArrays.of_this_process()


def content(seed=1, size=20_000):
    rng = np.random.default_rng(seed)
    arrays = {"w": rng.normal(size=size).astype(np.float32), "n": rng.integers(9, size=3)}
    record = ArrayRecord({name: Array(value) for name, value in arrays.items()})
    return RecordDict({"config": ConfigRecord({"server-round": 3}), "arrays": record})


def context(node):
    return Context(run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={})


def same(one, other):
    assert list(one) == list(other)
    for name, record in one.array_records.items():
        theirs = other.array_records[name]
        assert list(record) == list(theirs)
        for key, array in record.items():
            assert vars(array) == vars(theirs[key])
    assert one.config_records == other.config_records


def test_a_model_is_written_once_and_every_node_gets_all_of_it(files, tmp_path):
    asked = content()
    record = asked.array_records["arrays"]
    with_clients = RecordDict({"arrays": record, "config": ConfigRecord({"clients": [1, 2]})})
    messages = [Message(asked, 1, "train"), Message(asked, 2, "train")]
    messages.append(Message(with_clients, 3, "train", ttl=60.0, group_id="7"))
    sent = files.outgoing(messages)
    assert [path.name for path in (tmp_path / "arrays").iterdir()] == ["model-0"]
    assert [message.metadata.dst_node_id for message in sent] == [1, 2, 3]
    assert (sent[2].metadata.ttl, sent[2].metadata.group_id) == (60.0, "7")
    for message, before in zip(sent, (asked, asked, with_clients), strict=True):
        assert not message.content.array_records
        same(files.with_arrays(message.content), before)
    same(messages[0].content, content())


def test_the_reply_comes_back_the_same_way(files):
    (message,) = files.outgoing([Message(content(), 5, "train")])

    def train(asked, _):
        same(asked.content, content())
        return Message(content(seed=2), reply_to=asked)

    reply = shared_arrays(message, context(5), train)
    assert not reply.content.array_records
    same(files.with_arrays(reply.content), content(seed=2))


def test_errors_and_small_arrays_travel_as_they_are(files, tmp_path):
    (small,) = files.outgoing([Message(content(size=10), 5, "train")])
    same(small.content, content(size=10))
    (message,) = files.outgoing([Message(content(), 5, "train")])
    failed = shared_arrays(message, context(5), lambda m, _: Message(Error(1, "no"), reply_to=m))
    assert failed.has_error()
    assert [path.name for path in (tmp_path / "arrays").iterdir()] == ["model-0"]


def test_a_node_gets_the_model_where_it_lies_and_the_server_gets_a_copy(files):
    nodes, seen = SharedArrays.of_this_process(), []
    (message,) = files.outgoing([Message(content(), 5, "train")])
    lasting = nodes.with_arrays(message.content)
    shared_arrays(message, context(5), lambda m, _: seen.append(m.content) or m)
    same(seen[0], content())
    files.outgoing([Message(content(seed=2), 5, "train")])
    same(seen[0], content(seed=2))
    same(lasting, content())


def test_a_file_grows_and_smaller_models_fit_into_it(files):
    for size in (20_000, 50_000, 30_000):
        (message,) = files.outgoing([Message(content(size=size), 5, "train")])
        same(SharedArrays.of_this_process().with_arrays(message.content), content(size=size))


def test_replies_of_many_nodes_do_not_fill_the_process(files, tmp_path):
    for node in range(300):
        (message,) = files.outgoing([Message(content(), node, "train")])
        reply = shared_arrays(message, context(node), lambda m, _: Message(content(2), reply_to=m))
        same(files.with_arrays(reply.content), content(2))
    mapped = Path("/proc/self/maps").read_text().count(f"{tmp_path}/arrays/")
    assert 1 < mapped <= 256


def test_a_disk_that_is_full_is_an_error(files, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        files.outgoing([Message(content(), 5, "train")])


def test_the_next_model_is_read_again(files):
    for seed in (1, 2):
        (message,) = files.outgoing([Message(content(seed), 5, "train")])
        same(files.with_arrays(message.content), content(seed))


def test_a_message_whose_file_was_written_again_is_an_error(files):
    (late,) = files.outgoing([Message(content(), 5, "train")])
    files.outgoing([Message(content(seed=2), 5, "train")])
    with pytest.raises(RuntimeError, match="holds the arrays of another message"):
        files.with_arrays(late.content)


def test_a_node_without_a_directory_reads_no_file(files, monkeypatch):
    (message,) = files.outgoing([Message(content(), 5, "train")])
    monkeypatch.delenv(DIRECTORY)
    assert SharedArrays.of_this_process() is None
    seen = []
    shared_arrays(message, context(5), lambda m, _: seen.append(m) or m)
    assert RECORD in seen[0].content
    assert not seen[0].content.array_records
