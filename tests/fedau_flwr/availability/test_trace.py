import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedau_flwr.availability import Trace
from tests.fuzzing import examples

TABLE = np.array([[0, 1, 0], [1, 1, 0]])
tables = hnp.arrays(np.bool_, hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6))
same_directory = settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def test_array_rows_are_rounds():
    trace = Trace(TABLE)
    assert trace.clients == 3
    assert trace.active(0).tolist() == [False, True, False]
    assert trace.active(1).tolist() == [True, True, False]
    assert trace.probability.tolist() == [0.5, 1.0, 0.0]


def test_after_the_last_round():
    with pytest.raises(
        ValueError, match=r"^t is 2, but must be a round of the trace, 0 to 1; repeat=True"
    ):
        Trace(TABLE).active(2)
    repeated = Trace(TABLE, repeat=True)
    assert repeated.active(5).tolist() == repeated.active(1).tolist() == [True, True, False]


def test_clients_and_rounds_can_be_more_than_the_source_knows():
    trace = Trace(TABLE, clients=5, rounds=3)
    assert trace.active(1).tolist() == [True, True, False, False, False]
    assert not trace.active(2).any()
    with pytest.raises(ValueError, match=r"^clients is 2, but must be at least 3, as in the trace"):
        Trace(TABLE, clients=2)


@pytest.mark.parametrize("wrong", [[0, 1], [[]], [[0, 2]], [[0, np.nan]], [["0", "1"]]])
def test_wrong_arrays_are_named(wrong):
    with pytest.raises(
        ValueError,
        match=r"^the trace: (its shape|its type|round . of client .) is .*, but must be ",
    ):
        Trace(np.array(wrong))


@same_directory
@given(table=tables, blanks=st.booleans(), ending=st.sampled_from(["\n", "\r\n"]))
def test_csv_and_npy_round_trip(tmp_path, table, blanks, ending):
    separator = " , " if blanks else ","
    lines = [separator.join(str(int(value)) for value in row) for row in table]
    path = tmp_path / "trace.csv"
    path.write_bytes((ending.join(lines) + (ending * 2 if blanks else "")).encode())
    np.testing.assert_array_equal(Trace(path).table, table)
    np.save(tmp_path / "trace.npy", table.astype(np.int8))
    np.testing.assert_array_equal(Trace(str(tmp_path / "trace.npy")).table, table)


@same_directory
@given(table=tables)
def test_events_round_trip(tmp_path, table):
    path = tmp_path / "events.csv"
    events = [f"{c},{t},{t + 1}" for t, c in np.argwhere(table)]
    path.write_text("client,start,end\n" + "\n".join(events))
    if not events:
        with pytest.raises(ValueError, match=r"events.csv holds no events: "):
            Trace(path)
        return
    rounds, clients = table.shape
    np.testing.assert_array_equal(Trace(path, clients=clients, rounds=rounds).table, table)


def test_an_event_ends_before_its_end(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("client,start,end\n1,0,2\n0,1,4\n1,1,3\n")
    expected = np.array([[0, 1], [1, 1], [1, 1], [1, 0]])
    np.testing.assert_array_equal(Trace(path).table, expected)


@same_directory
@given(
    content=st.binary(max_size=60) | st.text(alphabet='01,\n -2x"_', max_size=40).map(str.encode)
)
@pytest.mark.parametrize("heading", [b"", b"client,start,end\n"])
def test_garbage_is_refused_in_one_sentence(tmp_path, heading, content):
    path = tmp_path / "garbage.csv"
    path.write_bytes(heading + content)
    try:
        table = Trace(path).table
    except ValueError as error:
        sentence = str(error)
        assert sentence.startswith(str(path))
        assert sentence.endswith(".")
        assert "\n" not in sentence
    else:
        assert table.size
        assert re.fullmatch(rb"[\xef\xbb\xbf0-9,\s\x1c-\x1f\x85\xc2\xa0]*", content)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "trace.csv holds no rounds: it is empty."),
        ("0,1\n\n0,x\n", "trace.csv, line 3 is 'x', but must be 0 or 1 in every place."),
        ("0,1\n0\n", "trace.csv, line 2 is '1 values', but must be 2 values like line 1."),
        (
            "client,start,end\n0,-1,2\n",
            "trace.csv, line 2: a value is '-1', but must be an integer >= 0.",
        ),
        ("client,start,end\n0,5,5\n", "trace.csv, line 2: end is 5, but must be after start, 5."),
        (
            "client,start,end\n0,1\n",
            "trace.csv, line 2 is '2 values', but must be client, start and end.",
        ),
        (
            "client,start,end\n7,0,1700000000\n",
            "trace.csv: its size is '8 clients and 1700000000 rounds', but must be at most "
            "2147483648 cells.",
        ),
    ],
)
def test_errors_name_file_line_and_value(tmp_path, content, sentence):
    path = tmp_path / "trace.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=rf"{re.escape(sentence)}$") as caught:
        Trace(path)
    assert str(caught.value) == f"{tmp_path}/{sentence}"


def test_files_of_other_kinds(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"no array")
    (tmp_path / "b.txt").write_text("0,1")
    (tmp_path / "c.csv").write_bytes(b"0,1\n\xff")
    np.save(tmp_path / "d.npy", np.array([[0, 3]]))
    for name, problem in [
        ("a.npy", "is not a NumPy file of numbers"),
        ("b.txt", "its suffix is '.txt', but must be .npy or .csv"),
        ("c.csv", "no UTF-8 at byte 4"),
        ("d.npy", " is 3, but must be 0 or 1"),
    ]:
        with pytest.raises(ValueError, match=re.escape(problem) + r"\.$"):
            Trace(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"missing\.csv"):
        Trace(tmp_path / "missing.csv")
