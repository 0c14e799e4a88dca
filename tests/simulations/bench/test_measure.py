"""Every row can be produced; runs are real, on nodes within the test's own process."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from fedau_flwr.testing.in_process_grid import InProcessGrid
from simulations.bench import measure, pause
from simulations.bench.flower_alone import flower_alone
from simulations.bench.flower_runs import ALONE
from simulations.bench.peers import PINNED
from simulations.bench.report import ROWS, Row
from simulations.cli import app as cli
from simulations.client_app import app as client_app
from simulations.config import RunConfig
from simulations.nodes.resident import initial_parameters
from simulations.runs.directory import RunDirectory

KEYS = [key for key in ROWS if key not in (*PINNED, "plain-flower")]


class InProcessLink:
    """Runs apps where a SuperLink would."""

    def __init__(self, **options):
        assert options["workers"] == 2

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def run_app(self, app, config, nodes):
        if app == ALONE:
            client, server = flower_alone.client, flower_alone.main
        else:
            assert tomllib.loads((app / "pyproject.toml").read_text())["tool"]["flwr"]["app"][
                "components"
            ] == {
                "serverapp": "simulations.bench.pause:server",
                "clientapp": "simulations.client_app:app",
            }
            client, server = client_app, pause.main
        grid = InProcessGrid(client, nodes, config)
        server(grid, next(iter(grid.contexts.values())))
        return {**RunDirectory(Path(config["run-dir"])).outcome(), "interrupted": False}


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Return what `fedau bench --quick` printed and wrote."""
    directory = tmp_path_factory.mktemp("bench")
    app = typer.Typer()
    cli.register(app)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "Simulator", InProcessLink)
        started = [Row("start", 1.5), Row("end", 3.0)]
        patch.setattr(measure, "start_rows", lambda *_: started)
        patch.chdir(directory)
        environment = {"COLUMNS": "240", "TERM": "dumb"}
        result = CliRunner().invoke(app, ["bench", "--quick"], env=environment)
    if result.exception:
        raise result.exception
    content = json.loads((directory / "bench.json").read_text())
    return result.output, {**content, "table": (directory / "bench.md").read_text()}


def test_every_row_is_printed_and_written(report):
    output, content = report
    assert {row["key"] for row in content["rows"]} == set(KEYS)
    for row in content["rows"]:
        if row["value"] is None:
            assert row["key"] in ("gpu", "share", "ties")
            continue
        assert row["value"] > 0 or row["key"] == "ties"
        if "goal" not in row:
            continue
        side, _, goal = row["goal"].rpartition(" ")
        above = row["value"] - float(goal)
        assert row["met"] == (above <= 0 if side == "at most" else above >= 0)
        said = re.search(re.escape(row["text"]) + r".*?(met|missed)", output)
        assert said[1] == ("met" if row["met"] else "missed")
        if not row["met"] and "profile-milliseconds" in row:
            assert f"Missed: {row['text']}" in output
    assert content["table"].count("\n") == 2 + len(KEYS)
    assert all(row["text"] in content["table"] for row in content["rows"])
    machine = content["machine"]
    assert machine["cores"] >= 1
    assert machine["flwr"].startswith("1.")
    assert content["quick"] is True


def test_sizes_of_messages_and_memory_are_the_real_ones(report):
    output, content = report
    rows = {row["key"]: row for row in content["rows"]}
    spec = RunConfig.parse(content["run"]).task
    parameters = sum(value.size for value in initial_parameters(spec, seed=1).values())
    details = rows["bytes"]["details"]
    assert details["fedau-bytes"] > 4 * parameters
    assert details["fedau-bytes"] <= details["fedavg-bytes"]
    growth = rows["scale"]["details"]
    for size in ("6", "60", "90", "crowd"):
        assert growth[f"server-megabytes-{size}"] > 50
    assert f"the server process holds {growth['server-megabytes-90']:.0f} MB" in output
