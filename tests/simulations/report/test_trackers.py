import math

import pytest

from simulations.config import ConfigError
from simulations.launch.runner import Resources
from simulations.report import trackers
from simulations.report.trackers import EventFiles
from tests.simulations.report.made_runs import made_run


def scalars(path) -> dict[str, dict[int, float]]:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="did not run: TensorBoard is not installed",
    ).EventAccumulator(str(path))
    accumulator.Reload()
    return {
        tag: {event.step: event.value for event in accumulator.Scalars(tag)}
        for tag in accumulator.Tags()["scalars"]
    }


def test_reports_become_events_as_they_come_and_once_only(tmp_path):
    pytest.importorskip("tensorboard", reason="did not run: TensorBoard is not installed")
    run = made_run(tmp_path, num_server_rounds=4, accuracy=lambda t: t / 10)
    lines = run.metrics_file.read_text().splitlines(keepends=True)
    run.metrics_file.write_text("".join(lines[:2]))
    with EventFiles(tmp_path) as events:
        events.update(run)
        events.update(run)
        run.metrics_file.write_text("".join(lines[:3]))
        events.update(run)
        run.metrics_file.write_text("".join(lines))
    found = scalars(tmp_path)
    assert found["accuracy/test"] == pytest.approx({1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4})
    assert found["participation/counted"][4] == 2.0
    assert found["test accuracy by class/class-9"][4] == pytest.approx(0.4)


def test_a_resumed_run_that_drops_reports_is_written_anew_without_what_is_no_number(tmp_path):
    pytest.importorskip("tensorboard", reason="did not run: TensorBoard is not installed")
    run = made_run(tmp_path, num_server_rounds=3)
    with EventFiles(tmp_path) as events:
        events.update(run)
        run.forget_reports_after(1)
        events.update(run)
        entry = {**run.metrics()[0], "round": 2, "train_loss": math.nan, "test_accuracy": 0.9}
        run.report(entry)
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 1
    found = scalars(tmp_path)
    assert found["accuracy/test"] == pytest.approx({1: 0.5, 2: 0.9})
    assert list(found["loss/train"]) == [1]


def test_without_tensorboard_there_is_one_sentence(monkeypatch):
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install -e '\.\[tensorboard\]'` in the clone\.$"):
        Resources(tensorboard=True)
    assert not Resources().tensorboard
