"""What a loop writes for others: JSON lines, TensorBoard, progress."""

import json
import logging
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import MetricRecord

from fedau_flwr import RoundLoop
from fedau_flwr.server.callbacks import (
    Checkpoints,
    Evaluate,
    JsonLines,
    MLflow,
    Progress,
    TensorBoard,
    WeightsAndBiases,
    progress,
    trackers,
)
from tests.fedau_flwr.federation import Federation, record, towards, training_app
from tests.fedau_flwr.server.test_loop import fedavg

START = np.float32([1, 2])


def run(*callbacks, rounds):
    grid = Federation(training_app(towards(np.zeros((3, 2))), []), 3)
    grid.silent = {next(iter(grid.contexts))}
    loop = RoundLoop(fedavg(), grid, callbacks)
    loop.run(record(x=START), rounds)
    return loop


def measure(number, arrays):
    return MetricRecord({"loss": np.nan if number == 2 else 1.0 / number, "shares": [0.5, 0.5]})


def test_json_lines_have_every_round_of_the_model_once(tmp_path):
    file = tmp_path / "logs" / "rounds.jsonl"
    run(Evaluate(measure), JsonLines(file), Checkpoints(tmp_path, every=2), rounds=2)
    with file.open("a") as lines:
        lines.write('{"round": 3, "loss": 9.0}\n{"rou')
    run(Evaluate(measure), JsonLines(file), Checkpoints(tmp_path, every=2), rounds=4)
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    assert [entry["round"] for entry in entries] == [1, 2, 3, 4]
    assert [entry["loss"] for entry in entries] == [1.0, None, 1 / 3, 0.25]
    seconds = [entry["seconds"] for entry in entries]
    assert seconds == sorted(seconds)
    assert entries[0].pop("round_seconds") > 0
    del entries[0]["seconds"]
    assert entries[0] == {
        "round": 1,
        "asked": 3,
        "counted": 2,
        "rejected": 0,
        "absent": 1,
        "train_loss": 0.25,
        "loss": 1.0,
        "shares": [0.5, 0.5],
    }


def test_tensorboard_shows_the_rounds_of_the_model(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="did not run: TensorBoard is not installed",
    )
    run(Evaluate(measure), TensorBoard(tmp_path), Checkpoints(tmp_path, every=2), rounds=3)
    run(Evaluate(measure), TensorBoard(tmp_path), Checkpoints(tmp_path, every=2), rounds=5)
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()

    def scalars(tag):
        return {event.step: event.value for event in events.Scalars(tag)}

    assert scalars("loss") == pytest.approx({1: 1.0, 3: 1 / 3, 4: 0.25, 5: 0.2})
    assert scalars("participation/counted") == dict.fromkeys(range(1, 6), 2.0)
    assert scalars("participation/absent")[5] == 1.0
    assert "shares" not in events.Tags()["scalars"]


def test_event_files_need_no_torch(tmp_path):
    script = (
        "import sys\n"
        "from fedau_flwr.server.callbacks.trackers import ScalarWriter\n"
        f"writer = ScalarWriter({str(tmp_path)!r})\n"
        "writer.add(1, {'loss': 0.5})\n"
        "writer.close()\n"
        "assert not {'torch', 'tensorflow'} & sys.modules.keys()\n"
    )
    pytest.importorskip("tensorboard", reason="did not run: TensorBoard is not installed")
    subprocess.run([sys.executable, "-c", script], check=True)
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 1


@pytest.mark.parametrize(
    ("callback", "extra"),
    [(TensorBoard, "tensorboard"), (WeightsAndBiases, "wandb"), (MLflow, "mlflow")],
)
def test_without_a_tracker_there_is_one_sentence(monkeypatch, callback, extra):
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'fedau-flwr\[{extra}\]'`\.$"):
        callback("anywhere")


class Recorder:
    """What a writer was told."""

    def __init__(self, *arguments, **options):
        self.opened, self.rounds, self.status = (arguments, options), {}, None

    def add(self, step, values):
        self.rounds[step] = trackers.finite(values)

    def close(self, status):
        self.status = status


def test_trackers_are_told_every_round_and_how_it_ended(monkeypatch):
    made = []
    for name in ("WandbWriter", "MLflowWriter"):
        monkeypatch.setattr(
            trackers, name, lambda *a, **o: made.append(Recorder(*a, **o)) or made[-1]
        )
    monkeypatch.setattr(trackers, "require", lambda *names: None)
    settings = {"lr": 0.1}
    both = (
        WeightsAndBiases("mine", config=settings, name="first"),
        MLflow("sqlite:///x.db", name="first", config=settings),
    )
    run(Evaluate(measure), *both, rounds=3)
    assert made[0].opened == ((settings,), {"project": "mine", "name": "first"})
    assert made[1].opened == (("sqlite:///x.db", "fedau", "first", settings), {})
    for writer in made:
        assert writer.status == "finished"
        assert writer.rounds[1] == {
            "participation/counted": 2.0, "participation/rejected": 0.0,
            "participation/absent": 1.0, "train_loss": 0.25, "loss": 1.0,
        }  # fmt: skip
        assert "loss" not in writer.rounds[2], "what is no number is left out"
        assert list(writer.rounds) == [1, 2, 3]


def test_throughput_leaves_the_first_round_of_an_attempt_out(monkeypatch):
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    callback, loop = Progress(), SimpleNamespace(round=10, rounds=20)
    callback.on_start(loop)
    now, loop.round = 160.0, 11
    callback.after_round(loop, None)
    assert callback.words(loop) == "throughput not known yet"
    now, loop.round = 162.0, 15
    callback.after_round(loop, None)
    assert callback.numbers(loop) == {"rounds_per_second": 2.0, "seconds_left": 2.5}
    assert callback.words(loop) == "2.00 rounds/s, 0:00:02 left"


def test_progress_is_logged_after_evaluations_and_at_the_end(caplog):
    caplog.set_level(logging.INFO, "flwr.loop")
    run(Evaluate(measure, every=3), Progress(every=1e9), rounds=7)
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("Round")]
    assert [line.split(":")[0] for line in lines] == ["Round 3/7", "Round 6/7", "Round 7/7"]
    assert lines[0].startswith("Round 3/7: 2 counted, train_loss 0.25, loss 0.3333; ")
    assert lines[0].endswith(" left")


def test_progress_is_a_file_for_others(tmp_path, caplog):
    caplog.set_level(logging.INFO, "flwr.loop")
    file = tmp_path / "progress.json"
    run(Progress(every=None, file=file), rounds=1)
    first = {"round": 1, "rounds": 1, "rounds_per_second": None, "seconds_left": None}
    assert json.loads(file.read_text()) == first
    assert not any(r.getMessage().startswith("Round") for r in caplog.records)
