"""The root app's real side, on nodes within the test's own process."""

import json
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict

from fedau_flwr.client.state_directory import read_versions
from fedau_flwr.server.callbacks.checkpoints import load_checkpoint
from fedau_flwr.testing.in_process_grid import InProcessGrid
from fedau_flwr.wire.records import encode
from simulations.client_app import app as client_app
from simulations.config import ConfigError, RunConfig
from simulations.nodes.deployed_data import node_samples
from simulations.nodes.resident import initial_parameters
from simulations.nodes.trainer import LocalTrainer
from simulations.nodes.worker import HELLO, STATES
from simulations.runs.experiment import open_experiment
from simulations.runs.raster import RasterFile, unpack
from simulations.server_app import app as server_app
from simulations.server_app import run_deployment
from simulations.tasks.split import dirichlet_split

NODES = 3


@pytest.fixture
def config(tmp_path):
    return RunConfig(
        pattern="deployment",
        clients=NODES,
        num_server_rounds=3,
        dataset="synthetic:train=120:test=50",
        checkpoint_every=2,
        evaluate_every=1,
        round_deadline=0.2,
        data_dir=str(tmp_path / "data"),
        run_dir=str(tmp_path / "run"),
    )


def federation(config, tmp_path, **node_config):
    grid = InProcessGrid(client_app, 0, config.to_dict())
    for client in range(NODES):
        state = {"fedau-state-dir": str(tmp_path / f"node-{client}")}
        grid.connect({"partition-id": client, "num-partitions": NODES, **state, **node_config})
    return grid


def outcome(run):
    return json.loads(run.outcome_file.read_text())


def model(run):
    return load_checkpoint(run.checkpoint_file)["model"]


def exposed(run):
    lines = (run.path / "metrics.prom").read_text().splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name.split("{")[0]: float(value) for name, value in pairs}


def test_every_round_is_that_of_the_formula(config, tmp_path):
    one = replace(config, num_server_rounds=1)
    run = run_deployment(federation(one, tmp_path), one)
    arrays = one.task.open(one.data_path, seed=one.seed)
    split = dirichlet_split(
        arrays.train.targets, num_clients=NODES, num_classes=10, alpha=0.1, seed=1
    )
    trainer = LocalTrainer(one.task, arrays.train)
    start = initial_parameters(one.task, seed=1)
    trained = [
        trainer.train(start, split.client(n), lr=one.local_lr, seed=(1, n, 1)).parameters
        for n in range(NODES)
    ]
    for name, value in model(run).items():
        step = sum(parameters[name] - start[name] for parameters in trained) / NODES
        np.testing.assert_allclose(value, start[name] + step, rtol=1e-5, atol=1e-7)


def test_a_secure_sum_gives_the_same_model_to_the_rounding_of_the_grid(config, tmp_path):
    plain = run_deployment(federation(config, tmp_path / "a"), config)
    masked = replace(config, secure_sum=True, run_dir=str(tmp_path / "masked"))
    grid = federation(masked, tmp_path / "b")
    secure = run_deployment(grid, masked)
    for name, value in model(plain).items():
        # Three contributions are off by a step of 2^-18 at most, in each of three rounds.
        np.testing.assert_allclose(model(secure)[name], value, atol=NODES * 3 * 2.0**-18)
    assert exposed(secure)["fedau_participations_total"] == 3 * NODES
    assert len(grid.received) == 4 * 3 * NODES, "four exchanges in each of three rounds"


def test_a_node_that_is_silent_is_an_absentee_and_says_so_in_the_metrics(config, tmp_path):
    grid = federation(config, tmp_path)
    grid.silent = {list(grid.get_node_ids())[1]}
    run = run_deployment(grid, config)
    assert outcome(run)["status"] == "finished"
    numbers = exposed(run)
    assert numbers["fedau_round"] == numbers["fedau_rounds"] == 3
    assert numbers["fedau_nodes_asked"] == NODES
    assert numbers["fedau_participants"] == 2
    assert numbers["fedau_absentees"] == 1
    assert numbers["fedau_absences_total"] == 3
    assert numbers["fedau_rejections_total"] == 0
    assert numbers["fedau_participations_total"] == 6
    assert numbers["fedau_round_seconds"] > 0
    assert numbers["fedau_test_accuracy"] == run.metrics()[-1]["test_accuracy"]


def test_nodes_are_written_down_with_weight_and_last_reason_and_a_resumed_run_goes_on(
    config, tmp_path
):
    grid = federation(config, tmp_path)
    silent, refusing, counted = grid.get_node_ids()
    grid.silent = {silent}
    # Its reply is an error: another client's state is where its own should be.
    grid.contexts[refusing].node_config["partition-id"] = "none"
    run = run_deployment(grid, replace(config, num_server_rounds=4))
    nodes = {node["id"]: node for node in json.loads(run.nodes_file.read_text())["nodes"]}
    assert list(nodes) == [str(node) for node in sorted(grid.get_node_ids())]
    assert nodes[str(counted)]["counted"] == nodes[str(counted)]["last"] == 4
    assert nodes[str(counted)]["weight"] == 1.0
    assert (nodes[str(silent)]["counted"], nodes[str(silent)]["rejected"]) == (0, 0)
    assert nodes[str(refusing)]["rejected"] == nodes[str(refusing)]["rejected_in"] == 4
    assert nodes[str(refusing)]["reason"]
    raster = RasterFile.open(run.raster_file)
    rows = unpack(raster.packed(1, raster.rounds), raster.clients).T.tolist()
    states = dict(zip(nodes, rows, strict=True))
    assert states == {str(silent): [1] * 4, str(refusing): [2] * 4, str(counted): [3] * 4}
    grid.silent = set()
    longer = replace(config, num_server_rounds=6, resume=True)
    run_deployment(grid, longer)
    after = {node["id"]: node for node in json.loads(run.nodes_file.read_text())["nodes"]}
    assert after[str(counted)]["counted"] == 6
    # Absent in rounds 1 to 4, there in 5 and 6: intervals of 5 and 1.
    assert after[str(silent)]["weight"] == 3.0
    assert RasterFile.open(run.raster_file).rounds == 6
    entries = [json.loads(line) for line in run.rounds_file.read_text().splitlines()]
    assert [(entry["counted"], entry["rejected"], entry["absent"]) for entry in entries] == (
        [(1, 1, 1)] * 4 + [(2, 1, 0)] * 2
    )


def test_resume_takes_the_nodes_back(config, tmp_path):
    whole = run_deployment(federation(config, tmp_path / "a"), config)
    part = replace(config, run_dir=str(tmp_path / "part"))
    run_deployment(federation(part, tmp_path / "b"), replace(part, num_server_rounds=2))
    resumed = replace(part, resume=True)
    run = run_deployment(federation(resumed, tmp_path / "b"), resumed)
    for name, value in model(whole).items():
        np.testing.assert_array_equal(model(run)[name], value)
    assert exposed(run)["fedau_attempt"] == 2
    (folder,) = (tmp_path / "b" / "node-0").glob("*/*/")
    assert read_versions(folder)[-1].state.weight == 1.0


def test_the_authors_draw_is_that_of_the_nodes_too(config):
    authors = replace(config, draw="authors")
    simulated = open_experiment(replace(authors, pattern="bernoulli"))
    for client in range(NODES):
        node = {"partition-id": client, "num-partitions": NODES}
        _, drawn = node_samples(authors, node)
        np.testing.assert_array_equal(drawn, simulated.split.client(client))
        _, own = node_samples(config, node)
        assert not np.array_equal(drawn, own)


def test_an_import_path_needs_the_owners_leave(config, tmp_path, caplog):
    path = "simulations.methods.average_all:AverageAll"
    one = replace(config, num_server_rounds=1)
    for number, (allowed, refusals) in enumerate(
        [({}, NODES), ({"fedau-allow-import": "other"}, NODES),
         ({"fedau-allow-import": "simulations"}, 0)]
    ):  # fmt: skip
        this = replace(one, run_dir=str(tmp_path / f"run-{number}"))
        # Nodes read the run config as it was given, whatever the server makes of it.
        given = SimpleNamespace(to_dict=lambda this=this: this.to_dict() | {"method": path})
        grid = federation(given, tmp_path / str(number), **allowed)
        run = run_deployment(grid, this)
        assert exposed(run)["fedau_rejects"] == refusals
    said = f"method is '{path}', but must be a name, or in a package that fedau-allow-import"
    assert said in caplog.text


def test_own_folder_is_the_nodes_alone(config, tmp_path):
    prepared = config.task.prepare(config.data_path, seed=1)
    own = tmp_path / "own"
    own.mkdir()
    for kind in ("images", "labels"):
        np.save(own / f"train-{kind}.npy", np.load(prepared / f"train-{kind}.npy")[:7])
    one = replace(config, num_server_rounds=1)
    run = run_deployment(federation(one, tmp_path, **{"data-dir": str(own)}), one)
    assert exposed(run)["fedau_participants"] == NODES


def test_broken_data_of_a_node_are_one_line_on_the_server(config, tmp_path, caplog):
    own = tmp_path / "own"
    own.mkdir()
    np.save(own / "train-images.npy", np.zeros((5, 32, 32, 3), np.float32))
    np.save(own / "train-labels.npy", np.zeros(5, np.int64))
    one = replace(config, num_server_rounds=1)
    run = run_deployment(federation(one, tmp_path, **{"data-dir": str(own)}), one)
    assert exposed(run)["fedau_rejects"] == NODES
    (line, *_) = [r.getMessage() for r in caplog.records if "Rejected" in r.getMessage()]
    assert "train images of synthetic must be uint8 [5, 32, 32, 3], but are float32" in line


def test_a_share_needs_a_number(config, tmp_path, caplog):
    grid = InProcessGrid(client_app, 0, config.to_dict())
    grid.connect({})
    run = run_deployment(grid, replace(config, num_server_rounds=1))
    assert exposed(run)["fedau_rejects"] == 1
    assert "partition-id is None of num-partitions 3 in the node config" in caplog.text


def test_server_without_test_data_trains_all_the_same(config, tmp_path, caplog):
    data = tmp_path / "nodes-data"
    config.task.prepare(data, seed=1)
    blocked = tmp_path / "no-directory"
    blocked.touch()
    one = replace(config, num_server_rounds=1, data_dir=str(blocked))
    run = run_deployment(federation(one, tmp_path, **{"data-dir": str(data)}), one)
    assert exposed(run)["fedau_participants"] == NODES
    assert "fedau_test_accuracy" not in exposed(run)
    assert "The model will not be evaluated" in caplog.text


@pytest.mark.parametrize("method", ["fedavg", "mifa", "fedstale", "fedawe", "mimic", "amplified"])
def test_other_methods_run_too(config, tmp_path, method):
    two = replace(config, num_server_rounds=2, method=method)
    run = run_deployment(federation(two, tmp_path), two)
    assert exposed(run)["fedau_participations_total"] == 2 * NODES


def test_groups_share_their_history(config, tmp_path):
    grouped = replace(config, groups="phones:2, tablets:1")
    grid = InProcessGrid(client_app, 0, grouped.to_dict())
    nodes = [
        grid.connect({"partition-id": client, "num-partitions": NODES, "fedau-group": group})
        for client, group in enumerate(["phones", "phones", "tablets"])
    ]
    grid.silent = {nodes[0]}
    run = run_deployment(grid, grouped)
    groups = load_checkpoint(run.checkpoint_file)["strategy"]["groups"]
    assert {name: (s["intervals"], s["length"]) for name, s in groups.items()} == {
        "phones": (3, 6),
        "tablets": (3, 3),
    }


def test_a_model_that_is_lost_ends_the_run_as_in_a_simulation(config, tmp_path):
    lost = replace(config, method="fedavg", lr=1e30, num_server_rounds=30, evaluate_every=30)
    run = run_deployment(federation(lost, tmp_path), lost)
    assert outcome(run)["status"] == "diverged"
    assert outcome(run)["sentence"].endswith("its model has values that are no finite numbers.")
    assert [entry["round"] for entry in run.metrics()] == [outcome(run)["round"]]
    assert load_checkpoint(run.checkpoint_file)["round"] == outcome(run)["round"]


def test_stops_when_asked(config, tmp_path):
    class Stopping(InProcessGrid):
        def get_node_ids(self):
            (tmp_path / "run" / "stop").touch()
            return super().get_node_ids()

    grid = Stopping(client_app, NODES, config.to_dict())
    run = run_deployment(grid, config)
    assert outcome(run) | {"sentence": ""} == {"status": "stopped", "round": 1, "sentence": ""}
    # The directory is the server's, where the operator may have no `fedau`.
    assert f"`flwr run` and 'run-dir=\"{run.path}\" resume=true'" in outcome(run)["sentence"]
    assert load_checkpoint(run.checkpoint_file)["round"] == 1


@pytest.fixture
def clock(monkeypatch):
    """Let seconds pass at once, and return what happens in which of them."""
    seconds = SimpleNamespace(now=1000.0, events={})

    def sleep(duration):
        seconds.now += duration
        for due in [moment for moment in seconds.events if moment <= seconds.now - 1000]:
            seconds.events.pop(due)()

    time = SimpleNamespace(monotonic=lambda: seconds.now, sleep=sleep)
    monkeypatch.setattr("fedau_flwr.server.callbacks.conditions.time", time)
    return seconds


@pytest.mark.parametrize("method", ["fedau", "fedavg"])
def test_nobody_there_can_be_stopped(config, tmp_path, clock, caplog, method):
    caplog.set_level("INFO")
    clock.events[150] = (tmp_path / "run" / "stop").touch
    grid = InProcessGrid(client_app, 0, config.to_dict())
    run = run_deployment(grid, replace(config, method=method))
    assert outcome(run) | {"sentence": ""} == {"status": "stopped", "round": 0, "sentence": ""}
    assert load_checkpoint(run.checkpoint_file)["round"] == 0
    assert not run.stop_file.exists()
    waits = [r.getMessage() for r in caplog.records if "waits for nodes" in r.getMessage()]
    assert waits == ["Round 1 waits for nodes: 0 connected, at least 1 needed."] * 3


@pytest.mark.parametrize(
    ("settings", "least"), [({}, 1), ({"method": "fedavg"}, 1), ({"secure_sum": True}, 3)]
)
def test_an_outage_is_no_part_of_a_round(config, clock, caplog, settings, least):
    caplog.set_level("INFO")
    one = replace(config, num_server_rounds=1, **settings)
    grid = InProcessGrid(client_app, 0, one.to_dict())
    for client in range(least):
        node_config = {"partition-id": client, "num-partitions": NODES}
        clock.events[70 * (client + 1)] = partial(grid.connect, node_config)
    run = run_deployment(grid, one)
    assert outcome(run)["status"] == "finished"
    assert exposed(run)["fedau_participants"] == least
    assert exposed(run)["fedau_round_seconds"] < 60
    assert f"at least {least} needed" in caplog.text


def test_more_nodes_than_clients_are_a_mistake(config, tmp_path):
    few = replace(config, clients=2)
    with pytest.raises(ConfigError, match="clients is 2, but must be at least 3"):
        run_deployment(federation(few, tmp_path), few)


def test_statistics_that_nobody_knows(config, tmp_path):
    known = replace(config, method="known-statistics")
    with pytest.raises(ConfigError, match="nobody knows"):
        run_deployment(federation(known, tmp_path), known)


def test_server_app_goes_by_the_pattern(config, tmp_path):
    one = replace(config, num_server_rounds=1)
    context = Context(
        run_id=1, node_id=1, node_config={}, state=RecordDict(), run_config=one.to_dict()
    )
    server_app(federation(one, tmp_path), context)
    assert json.loads((tmp_path / "run" / "outcome.json").read_text())["status"] == "finished"


def asked(grid, kind, **config):
    node = next(iter(grid.contexts))
    fields = {"server-round": 1, "lr": 0.1, "train": [0, 9], "test": [0, 9], "samples": True}
    content = RecordDict({"config": ConfigRecord({**fields, **config})})
    content["arrays"] = encode({"x": np.zeros(3, np.float32)})
    (reply,) = grid.send_and_receive([Message(content, node, kind)])
    return reply.error.reason


def test_a_server_does_not_choose_where_a_deployed_node_writes(config, tmp_path):
    chosen = tmp_path / "chosen by the server"
    reason = asked(federation(config, tmp_path), "train", **{STATES: str(chosen)})
    assert reason == (
        "This node is deployed, having ['fedau-state-dir']: it does not answer client-states in a "
        "message."
    )
    bare = InProcessGrid(client_app, 1, config.to_dict())
    assert asked(bare, "train", **{STATES: str(chosen)}).endswith("what a simulation has made.")
    assert not chosen.exists()


def test_a_deployed_node_reports_nothing_about_its_samples(config, tmp_path):
    reason = asked(federation(config, tmp_path), "evaluate")
    assert reason.endswith("it does not answer an evaluate message.")


def test_a_deployed_node_makes_no_model_for_whoever_asks(config, tmp_path):
    content = RecordDict({HELLO: ConfigRecord()})
    grid = federation(config, tmp_path)
    query = Message(content, next(iter(grid.contexts)), MessageType.QUERY)
    (reply,) = grid.send_and_receive([query])
    assert reply.error.reason.endswith("it does not answer hello in a message.")


def test_a_run_does_not_switch_the_masks_of_a_node_off(config, tmp_path):
    """The run has secure-sum=false, and the node's owner fedau-require-secure=true."""
    run = run_deployment(federation(config, tmp_path, **{"fedau-require-secure": True}), config)
    assert exposed(run)["fedau_participants"] == 0
    secure = replace(config, secure_sum=True, run_dir=str(tmp_path / "secure"))
    run = run_deployment(federation(secure, tmp_path, **{"fedau-require-secure": True}), secure)
    assert exposed(run)["fedau_participants"] == NODES
