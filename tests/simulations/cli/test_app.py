"""The suite's commands; runs are real, on nodes within the test's own process."""

import re
from dataclasses import fields

import pytest
import typer
from typer.testing import CliRunner

from fedau_flwr.server.loop import RunFailure
from fedau_flwr.testing.in_process_grid import InProcessGrid
from simulations.cli import app as cli
from simulations.client_app import app as client_app
from simulations.config import RunConfig, key_of
from simulations.launch import runner as launch
from simulations.runs.directory import RunDirectory
from simulations.server_app import run_experiment

TINY = (
    "--data-dir data --clients 14 --dataset synthetic:train=300:test=60 --rounds 4 "
    "--mean-participation 0.3"
)


class InProcessLink:
    """Runs experiments where a SuperLink would."""

    stop_method = None
    interrupt_method = None

    def __init__(self, **options):
        self.options = options

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def run(self, config, nodes, follow):
        if config.method == "fedvarp":
            raise RunFailure("Node 5 failed: no reason given.")
        run = run_experiment(InProcessGrid(client_app, nodes, config.to_dict()), config)
        follow(run)
        if config.method == self.stop_method:
            run.finish("stopped", 2, "The run was stopped.")
        return {**run.outcome(), "interrupted": config.method == self.interrupt_method}


@pytest.fixture
def fedau(monkeypatch, tmp_path):
    """Return a function that runs the command line in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launch, "Simulator", InProcessLink)
    app = typer.Typer()
    cli.register(app)

    def call(line):
        result = CliRunner().invoke(app, line.split(), env={"COLUMNS": "160", "TERM": "dumb"})
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


def test_run_writes_a_run_and_says_where(fedau, tmp_path):
    result = fedau(f"run {TINY} --evaluate-every 2 --run-dir here --seed 3")
    assert result.exit_code == 0, result.output
    assert f"The results go to {tmp_path / 'here'}" in result.output
    assert len(re.findall(r"round [24]/4: train \d+\.\d % \(loss", result.output)) == 2
    assert "here: The run finished its 4 rounds." in result.output
    config = RunDirectory(tmp_path / "here").config()
    assert (config.seed, config.data_dir) == (3, str(tmp_path / "data"))


def test_run_makes_a_new_directory_by_default(fedau, tmp_path):
    assert fedau(f"run {TINY}").exit_code == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert run.name.endswith("-fedau-50-synthetic-train-300-test-60-seed1")


def test_resume_goes_on_with_what_may_change(fedau, tmp_path):
    fedau(f"run {TINY} --run-dir here")
    result = fedau("resume here --rounds 6 --clients-per-node 7")
    assert result.exit_code == 0, result.output
    assert RunDirectory(tmp_path / "here").metrics()[-1]["round"] == 6


def test_compare_prints_and_draws_methods_and_classes(fedau, tmp_path):
    result = fedau(f"compare {TINY} --methods fedau,fedau:0,fedavg --seeds 1-2 --out all")
    assert result.exit_code == 0, result.output
    names = sorted(path.name for path in (tmp_path / "all").iterdir() if path.is_dir())
    methods = ("fedau-50", "fedau-infinity", "fedavg")
    assert names == [f"{method}-seed{seed}" for method in methods for seed in (1, 2)]
    for name in ("fedau K=50", "fedau K=∞", "fedavg"):
        # Rows of accuracy and of its spread over clients, and a column of classes.
        assert len(re.findall(rf"{name} .* ± ", result.output)) == 2
        assert len(re.findall(rf" {name} ", result.output)) == 3
    assert len(re.findall(r"^ no\. \d+ ", result.output, re.MULTILINE)) == 10
    for plot in ("curves", "classes"):
        assert (tmp_path / "all" / f"{plot}-synthetic-bernoulli.png").stat().st_size > 1000
    assert result.output.rstrip().endswith(str(tmp_path / "all" / "report.html"))
    assert "</html>" in (tmp_path / "all" / "report.html").read_text()


def test_compare_tells_a_secure_sum_from_a_plain_one(fedau, tmp_path):
    line = f"compare {TINY} --clients-per-node 1 --methods fedau,fedau+secure,fedavg --out all"
    result = fedau(line)
    assert result.exit_code == 0, result.output
    assert RunDirectory(tmp_path / "all" / "fedau-50+secure-seed1").config().secure_sum
    for secure in ("False", "True"):
        assert len(re.findall(rf" {secure} +fedau K=50 ", result.output)) == 2, result.output
        plot = tmp_path / "all" / f"curves-synthetic-bernoulli-secure-sum-{secure}.png"
        assert plot.stat().st_size > 1000


@pytest.mark.parametrize("packing", ["--workers 2", "--clients-per-node 10"])
def test_a_secure_sum_over_two_nodes_is_refused_before_anything_starts(packing, fedau, tmp_path):
    result = fedau(f"run {TINY} --secure-sum {packing} --run-dir here")
    assert result.exit_code == 2
    assert "secure-sum is true, which needs at least 3 SuperNodes" in " ".join(
        result.output.split()
    )
    assert not (tmp_path / "here").exists()


def test_compare_ends_when_a_run_is_stopped(fedau, tmp_path, monkeypatch):
    monkeypatch.setattr(InProcessLink, "stop_method", "mifa")
    result = fedau(f"compare {TINY} --methods mifa,fedavg --out all")
    assert result.exit_code == 130
    runs = [path.name for path in (tmp_path / "all").iterdir() if path.is_dir()]
    assert runs == ["mifa-seed1"]


def test_compare_ends_also_if_the_wish_came_too_late_for_its_run(fedau, tmp_path, monkeypatch):
    monkeypatch.setattr(InProcessLink, "interrupt_method", "mifa")
    result = fedau(f"compare {TINY} --methods mifa,fedavg --out all")
    assert result.exit_code == 130
    assert RunDirectory(tmp_path / "all" / "mifa-seed1").outcome()["status"] == "finished"
    assert not (tmp_path / "all" / "fedavg-seed1").exists()


def test_two_names_of_one_run_are_one_run(fedau, tmp_path):
    result = fedau(f"compare {TINY} --methods fedau,fedau:50,fedau --seeds 1,1-2 --out all")
    assert result.exit_code == 0, result.output
    names = sorted(path.name for path in (tmp_path / "all").iterdir() if path.is_dir())
    assert names == ["fedau-50-seed1", "fedau-50-seed2"]


def test_empty_clients_are_told_of(fedau):
    result = fedau(f"run {TINY} --clients 250 --run-dir here")
    assert re.search(r"\d+ of \d+ clients hold no training sample and contribute", result.output)
    assert "hold no training sample" not in fedau(f"run {TINY} --alpha-data 100").output


def test_clients_per_node_may_be_auto(fedau, tmp_path):
    assert fedau(f"run {TINY} --clients-per-node auto --run-dir here").exit_code == 0
    assert RunDirectory(tmp_path / "here").config().clients_per_node == 0
    result = fedau(f"run {TINY} --clients-per-node many --run-dir there")
    assert result.exit_code == 2
    assert "'many' is neither a number nor auto." in result.output


def test_compare_goes_on_where_it_was_stopped_and_keeps_what_is_done(fedau, tmp_path, monkeypatch):
    line = f"compare {TINY} --methods fedau,mifa,fedavg --out all"
    with monkeypatch.context() as stopping:
        stopping.setattr(InProcessLink, "stop_method", "mifa")
        assert fedau(line).exit_code == 130
    done = (tmp_path / "all" / "fedau-50-seed1" / "metrics.jsonl").stat()
    result = fedau(line)
    assert result.exit_code == 0, result.output
    assert "1 of 3 runs are done already." in result.output
    assert (tmp_path / "all" / "fedau-50-seed1" / "metrics.jsonl").stat() == done
    for name in ("fedau-50", "mifa", "fedavg"):
        assert RunDirectory(tmp_path / "all" / f"{name}-seed1").metrics()[-1]["round"] == 4


def test_a_failed_run_is_one_sentence_and_code_1(fedau):
    result = fedau(f"run {TINY} --method fedvarp")
    assert result.exit_code == 1
    assert result.output.splitlines()[-1] == "Node 5 failed: no reason given."


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("run --method fedprox", "method is 'fedprox', but must be one of fedau, "),
        ("run --method fedau:-1", "cutoff of method fedau is -1, but must be 0 or more."),
        (
            "run --dataset cinic10 --data-dir data",
            "{here}/data/cinic10/train-images.npy is missing: run `fedau ",
        ),
        (
            f"run {TINY} --pattern trace:/no.csv",
            "file of pattern trace is '/no.csv', but must be a file ",
        ),
        (
            f"run {TINY} --gpus-per-client 1",
            "gpus-per-client is 1 and device is 'auto', but must be 0 ",
        ),
        (f"run {TINY} --device cuda", "gpus-per-client is -1 and device is 'cuda', but must be 0 "),
        ("run --workers -1", "workers is -1, but must be 0 or more."),
        ("compare --seeds 1-x", "seeds is '1-x', but must be like 1,2 or 1-5."),
        ("compare --seeds 3-1", "seeds is '3-1', but must name at least one."),
        (
            "compare --methods mifa:5",
            "method mifa has the parameter '5', but its own must be left out",
        ),
        ("resume nowhere", "run-dir is '{here}/nowhere', but must be the directory of a run"),
        ("run --device gpu", "device is 'gpu', but must be cpu, cuda, cuda:N or auto."),
        (
            f"run {TINY} --run-dir taken",
            "run-dir is '{here}/taken', but must be a directory that can be written to "
            "({here}/taken is no directory).",
        ),
        (
            f"run {TINY} --run-dir taken/x",
            "run-dir is '{here}/taken/x', but must be a directory that can be written to "
            "({here}/taken is no directory).",
        ),
        (
            f"compare {TINY} --out taken",
            "run-dir is '{here}/taken/fedau-50-seed1', but must be a directory that can be",
        ),
        ("pattern --clients 20 --out taken", "{here}/taken: "),
        ("study patterns --dataset synthetic --clients 20 --out taken", "{here}/taken: "),
        ("study weights --dataset synthetic --pattern deployment", "pattern is 'deployment', but "),
        (
            "study weights --dataset synthetic --pattern trace:no.csv",
            "file of pattern trace is 'no.csv', but must be an absolute path.",
        ),
        (
            "bench --out taken/bench.json",
            "the directory of out is '{here}/taken', but must be a directory",
        ),
        ("bench --out table.md", "out is 'table.md', but must be the name of a .json file."),
        ("data prepare mnist", "dataset is 'mnist', but must be one of svhn, "),
    ],
)
def test_mistakes_are_one_sentence_and_code_2(fedau, tmp_path, line, sentence):
    if "cuda" in line or "gpus" in line:
        torch = pytest.importorskip("torch")
        if torch.cuda.is_available():
            pytest.skip("did not run: this machine has a GPU")
    (tmp_path / "taken").touch()
    result = fedau(line)
    assert result.exit_code == 2
    (only,) = result.output.splitlines()
    assert only.startswith(sentence.format(here=tmp_path))
    assert only.endswith(".")


def test_a_directory_with_a_run_is_not_overwritten(fedau):
    fedau(f"run {TINY} --run-dir here")
    result = fedau(f"run {TINY} --run-dir here")
    assert result.exit_code == 2
    assert "must not hold a run yet" in result.output


def test_a_run_is_not_resumed_to_fewer_rounds_than_it_has_done(fedau, tmp_path):
    fedau(f"run {TINY} --run-dir here")
    result = fedau("resume here --rounds 3")
    assert result.exit_code == 2
    assert "rounds is 3, but must be at least 4, which" in result.output
    assert RunDirectory(tmp_path / "here").config().rounds == 4


@pytest.mark.parametrize("command", ["run", "compare"])
def test_every_key_is_an_option_with_help_and_its_default(fedau, command):
    text = " ".join(re.sub("[│╭╮╰╯─]", " ", fedau(f"{command} --help").output).split())
    own = {"resume"} if command == "run" else {"resume", "run_dir", "method", "seed"}
    for item in fields(RunConfig):
        if item.name in own:
            continue
        option = {"num_server_rounds": "rounds"}.get(item.name, key_of(item.name))
        assert f"--{option} " in text, option
        if item.default not in ("", False):
            said = text.partition(f"{item.metadata['help']} ")[2]
            assert said.startswith(f"[default: {item.default}]"), option
