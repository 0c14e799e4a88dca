import json
import math
from dataclasses import replace

import pytest

from simulations.config import ConfigError
from simulations.launch.runner import Resources
from simulations.report import trackers
from simulations.report.trackers import EventFiles, open_mlflow
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


@pytest.mark.parametrize(
    ("key", "value"), [("tensorboard", True), ("wandb", "project"), ("mlflow", "sqlite:///x.db")]
)
def test_without_a_tracker_there_is_one_sentence(monkeypatch, key, value):
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=rf"pip install -e '\.\[{key}\]'` in the clone\.$"):
        Resources(**{key: value})
    assert not getattr(Resources(), key)


def follow(run, **resources):
    """Let the trackers follow a run that reports in two portions, the second one at its end."""
    config = replace(run.config(), run_dir=str(run.path))
    lines = run.metrics_file.read_text().splitlines(keepends=True)
    with Resources(**resources).trackers(config) as (update,):
        run.metrics_file.write_text("".join(lines[:2]))
        update(run)
        # A resumed run drops what it reports again.
        run.metrics_file.write_text(lines[0])
        update(run)
        run.metrics_file.write_text("".join(lines))


@pytest.fixture
def tracked_run(tmp_path):
    return made_run(
        tmp_path / "mine", num_server_rounds=3, accuracy=lambda t: t / 10, data_dir="/a/secret"
    )


def test_weights_and_biases_has_settings_curves_tables_and_plots_offline(
    tracked_run, tmp_path, monkeypatch
):
    wandb = pytest.importorskip("wandb", reason="did not run: wandb is not installed")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for place in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"WANDB_{place}_DIR", str(tmp_path / place))
    follow(tracked_run, wandb="my-project")
    wandb.teardown()
    (file,) = tracked_run.path.glob("wandb/offline-run-*/run-*.wandb")
    records = list(offline_records(file))
    (begun,) = [record.run for record in records if record.HasField("run")]
    assert (begun.project, begun.display_name) == ("my-project", "mine")
    assert "num-server-rounds" in {item.key for item in begun.config.update}
    assert b"/a/secret" not in file.read_bytes()
    curve = {}
    for record in records:
        if record.HasField("history"):
            row = {
                "".join(item.nested_key) or item.key: item.value_json
                for item in record.history.item
            }
            if "accuracy/test" in row:
                curve[record.history.step.num] = json.loads(row["accuracy/test"])
    assert curve == pytest.approx({1: 0.1, 2: 0.2, 3: 0.3})
    media = {path.parent.name for path in file.parent.glob("files/media/*/*")}
    assert media == {"images", "table"}
    summary = {
        item.key or item.nested_key[0]: item.value_json
        for record in records if record.HasField("summary") for item in record.summary.update
    }  # fmt: skip
    assert json.loads(summary["status"]) == "finished"


def offline_records(path):
    """Read wandb's own file: blocks of 32 KiB with pieces of records, as LevelDB's log has them."""
    internal = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    data, at, parts = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            record = internal.Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


def test_mlflow_has_settings_curves_tables_and_plots_in_a_local_store(
    tracked_run, tmp_path, monkeypatch
):
    pytest.importorskip("mlflow", reason="did not run: MLflow is not installed")
    from mlflow.tracking import MlflowClient

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    follow(tracked_run, mlflow=uri)
    client = MlflowClient(uri)
    (run,) = client.search_runs([client.get_experiment_by_name("fedau").experiment_id])
    assert (run.info.run_name, run.info.status) == ("mine", "FINISHED")
    assert run.data.params["num-server-rounds"] == "3"
    assert not {"data-dir", "run-dir"} & run.data.params.keys()
    history = client.get_metric_history(run.info.run_id, "accuracy/test")
    assert {point.step: point.value for point in history} == pytest.approx({1: 0.1, 2: 0.2, 3: 0.3})
    files = {path.name for path in (tmp_path / "mlflow-files").rglob("*.*")}
    assert {"accuracy.csv", "tables.md", "curves-synthetic-bernoulli.png"} <= files


def test_a_store_that_cannot_be_written_to_is_one_sentence(tracked_run):
    pytest.importorskip("mlflow", reason="did not run: MLflow is not installed")
    config = replace(tracked_run.config(), run_dir=str(tracked_run.path))
    with pytest.raises(ConfigError, match=r"^mlflow is 'nowhere://x', but must be what MLflow can"):
        open_mlflow("nowhere://x", config)
