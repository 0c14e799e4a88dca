"""The suite's own app with a ServerApp whose runs wait between rounds when they are asked to."""

from __future__ import annotations

import tomllib
from pathlib import Path

import tomli_w
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from simulations.bench.pause import Pausing
from simulations.config import RunConfig
from simulations.launch.simulator import CLONE
from simulations.runs.directory import RunDirectory
from simulations.server_app import run_experiment

server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run the experiment that the run config describes."""
    config = RunConfig.parse(context.run_config)
    run_experiment(grid, config, [Pausing(RunDirectory(Path(config.run_dir)))])


def write_app(directory: Path) -> Path:
    """Write the directory of the app, which has the keys and the clients of the suite's own."""
    suite = tomllib.loads((CLONE / "pyproject.toml").read_text(encoding="utf-8"))
    app = suite["tool"]["flwr"]["app"]
    project = {"name": "pausing", "version": "1.0.0", "description": "For `fedau bench`"}
    content = {
        "project": {**project, "license": suite["project"]["license"]},
        "tool": {
            "flwr": {
                "app": {
                    "publisher": app["publisher"],
                    "components": {
                        "serverapp": f"{__name__}:server",
                        "clientapp": app["components"]["clientapp"],
                    },
                    "config": app["config"],
                }
            }
        },
    }
    directory.mkdir(parents=True)
    (directory / "pyproject.toml").write_text(tomli_w.dumps(content), encoding="utf-8")
    return directory
