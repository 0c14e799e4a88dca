"""Recordings of real devices, in files of the formats that people have, made here."""

import json
import pickle
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedau_flwr.availability import Timeline, read_events, read_fedscale, read_flash


def path_of(process, rounds):
    return np.array([process.active(t) for t in range(rounds)])


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_timeline_is_what_a_loop_over_its_stretches_says(data):
    devices, starts, stretches, periods = data.draw(st.integers(1, 5)), [], [], []
    for _ in range(devices):
        period = data.draw(st.integers(1, 40))
        edges = data.draw(st.lists(st.integers(0, period), max_size=6, unique=True).map(sorted))
        stretches.append(np.array(edges[: len(edges) // 2 * 2]).reshape(-1, 2))
        periods.append(period)
        starts.append(data.draw(st.integers(0, 50)))
    seconds = data.draw(st.sampled_from([0.5, 1.0, 7.0]))
    process = Timeline(stretches, periods, round_seconds=seconds, starts=starts)
    for t in data.draw(st.lists(st.integers(0, 500), min_size=1, max_size=8)):
        clocks = [(t * seconds - s) % p for s, p in zip(starts, periods, strict=True)]
        expected = [
            any(on <= now < off for on, off in some)
            for some, now in zip(stretches, clocks, strict=True)
        ]
        assert process.active(t).tolist() == expected
    shares = [sum(off - on for on, off in some) for some in stretches]
    np.testing.assert_allclose(process.probability, np.array(shares) / periods)


def test_a_seed_deals_devices_and_several_clients_may_have_the_same():
    stretches = [[[n, n + 1]] for n in range(4)]
    dealt = Timeline(stretches, [4] * 4, round_seconds=1.0, clients=10, seed=3)
    path = path_of(dealt, 4)
    assert (path.sum(axis=0) == 1).all()
    device = path.argmax(axis=0)
    assert sorted(device[:4]) == [0, 1, 2, 3]
    np.testing.assert_array_equal(device[4:8], device[:4])
    other = Timeline(stretches, [4] * 4, round_seconds=1.0, clients=10, seed=4)
    assert (path_of(other, 4) != path).any()
    alone = Timeline(stretches, [4] * 4, round_seconds=1.0, clients=6)
    assert path_of(alone, 4).argmax(axis=0).tolist() == [0, 1, 2, 3, 0, 0]
    assert alone.probability.tolist() == [0.25] * 4 + [0.0] * 2


@pytest.mark.parametrize(
    ("stretches", "periods", "options", "reason"),
    [
        ([], [], {}, "must be those of at least one device"),
        ([[[0, 1]]], [0.0], {}, r"stretches\[0\]"),
        ([[[0, 1]], [[3, 2]]], [5, 5], {}, r"stretches\[1\] is \[3.0, 2.0\], but"),
        ([[[0, 9]]], [5], {}, "from 0 to its period, 5"),
        ([[[0, 1]]], [5], {"round_seconds": 0.0}, "round_seconds"),
        ([[[0, 1]]], [5], {"round_seconds": "10"}, "round_seconds is '10', but must be positive"),
        ([[[0, 1]]], [5], {"clients": -1}, "clients is -1, but must be an integer >= 1"),
        ([[[0, 1]]], [5], {"clients": 0}, "clients is 0, but must be an integer >= 1"),
        ([[[0, 1]]], [5, 6], {}, r"shape of periods is \(2,\), but must be \(1,\), one per dev"),
    ],
)
def test_what_is_no_timeline(stretches, periods, options, reason):
    with pytest.raises(ValueError, match=reason):
        Timeline(stretches, periods, **{"round_seconds": 1.0, **options})


def test_on_off_events(tmp_path):
    file = tmp_path / "events.csv"
    file.write_text("client,time,state\n0,0,on\n2,30,on\n0,20,off\n2,45.5,off\n2,60,on\n")
    process = read_events(file, round_seconds=10, clients=4)
    expected = np.zeros((12, 4), bool)
    expected[[0, 1, 6, 7], 0] = True
    expected[[3, 4, 9, 10], 2] = True
    np.testing.assert_array_equal(path_of(process, 12), expected)


TRACE = {
    3834: {
        "duration": 30,
        "active": [10, 50],
        "inactive": [30, 60],
        "finish_time": 100,
        "model": "X",
    },
    7: {"duration": 40, "active": [0], "inactive": [40], "finish_time": 80},
    9: {"duration": 0, "active": [], "inactive": [], "finish_time": 80},
}


def test_fedscale(tmp_path):
    file = tmp_path / "client_behave_trace"
    file.write_bytes(pickle.dumps(TRACE))
    path = path_of(read_fedscale(file, round_seconds=10, seed=1), 80)
    found = {tuple(column) for column in path.T.tolist()}
    first = [t % 10 in (1, 2, 5) for t in range(80)]
    second = [t % 8 < 4 for t in range(80)]
    assert found == {tuple(first), tuple(second), (False,) * 80}


def flash(*lines, start="2020-01-28 00:00:00"):
    begin = datetime.fromisoformat(start)
    text = [f"{begin + timedelta(seconds=second)}\t{state}" for second, state in lines]
    return {"messages": "\n".join([*text, ""]), "model": "some phone"}


def test_flash(tmp_path):
    file = tmp_path / "state_traces.json"
    devices = {
        "0": flash((0, "screen_lock"), (5, "wifi"), (10, "battery_charged_on"), (20, "87.0%"),
                   (40, "4G"), (50, "Wifi"), (60, "screen_on"), (70, "screen_unlock"), (100, "3G")),
        "1": flash((0, "wifi"), (0, "screen_lock"), (0, "battery_charged_on"), (50, "12%"),
                   start="2020-01-28 00:00:30"),
        "2": flash((0, "wifi")),
    }  # fmt: skip
    file.write_text(json.dumps(devices))
    path = path_of(read_flash(file, round_seconds=10, seed=1), 20)
    found = {tuple(column) for column in path.T.tolist()}
    first = [t % 10 in (1, 2, 3, 5, 6) for t in range(20)]
    # The second is locked, charged and on WiFi from its first line to its last, and so for good.
    assert found == {tuple(first), (True,) * 20, (False,) * 20}


class Evil:
    def __reduce__(self):
        return print, ("this must not be printed",)


@pytest.mark.parametrize(
    ("reader", "content", "reason"),
    [
        (read_fedscale, pickle.dumps(Evil()), "asks for builtins.print"),
        (read_fedscale, pickle.dumps({1: np.float64(3)}), "no pickle of plain containers"),
        (read_fedscale, b"no pickle", "no pickle of plain containers"),
        (read_fedscale, b"", "no pickle of plain containers"),
        (read_fedscale, pickle.dumps([1]), "must hold a dictionary"),
        (read_fedscale, pickle.dumps({}), "holds no devices"),
        (read_fedscale, pickle.dumps({5: 1}), "device 5 is '1', but must be a dictionary"),
        (read_fedscale, pickle.dumps({5: {"finish_time": "x"}}), "device 5, finish_time is 'x'"),
        (
            read_fedscale,
            pickle.dumps({5: {"finish_time": 5, "active": 3}}),
            "active is 3, but must",
        ),
        (
            read_fedscale,
            pickle.dumps({5: {"finish_time": 5, "active": [1, 2], "inactive": [2]}}),
            "2 times active and 1 inactive",
        ),
        (read_flash, b"{", "is not a JSON file"),
        (read_flash, b"\xff", "no UTF-8 at byte 0"),
        (read_flash, b"[" * 100_000, "is not a JSON file"),
        (read_flash, b'{"0": {}}', "messages is None, but must be a text"),
        (read_flash, b'{"0": {"messages": "noon\\twifi"}}', "device '0': a line is 'noon"),
        (
            read_flash,
            b'{"0": {"messages": "2020-01-28 00:00:00\\tflying"}}',
            "device '0': a state is 'flying', but must be one of screen_lock",
        ),
        (read_events, b"client,start,end\n", "does not begin with the line 'client,time,state'"),
        (read_events, b"client,time,state\n0,1,maybe\n", "line 2 is '0,1,maybe'"),
        (read_events, b"client,time,state\n0,-1,on\n", "line 2 is '-1', but must be a number"),
        (read_events, b"client,time,state\n0,0,on\n", "no events after second 0"),
        (read_events, b"client,time,state\n7,1,on\n", "is 7, but must be below"),
    ],
)
def test_bad_files_get_one_sentence(reader, content, reason, tmp_path, capfd):
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=reason) as caught:
        reader(file, round_seconds=10, clients=5)
    assert str(caught.value).startswith(str(file))
    assert str(caught.value).count(str(file)) == 1
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
    assert not capfd.readouterr().out
