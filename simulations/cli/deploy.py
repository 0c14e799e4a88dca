"""``fedau deploy local``, and what ``fedau resume`` does for a training on a deployment."""

import re
import subprocess
import sysconfig
from pathlib import Path
from typing import Annotated, Any

import click
import typer

from fedau_flwr import _flower
from simulations.cli.invocation import new_directory
from simulations.config import ConfigError, RunConfig
from simulations.launch.local import deploy_local
from simulations.launch.runner import check_writable
from simulations.launch.simulator import CLONE
from simulations.launch.superlink import config_argument

RUN = "run"
"""The run's directory within that of a local federation."""

Values = dict[str, str | int | float | bool]


def local(
    *,
    nodes: Annotated[int, typer.Option(min=1, help="Number of SuperNodes.")] = 5,
    app: Annotated[
        Path | None, typer.Option(help="Folder of a Flower app; the suite's own by default.")
    ] = None,
    run_config: Annotated[
        str, typer.Option("--run-config", "-c", help='Overrides, as in "num-server-rounds=5".')
    ] = "",
    data_dir: Annotated[
        Path | None, typer.Option(help="Given to all nodes, and to the suite's own server.")
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(help="Keys, database, states, logs; a new one in ./runs by default."),
    ] = None,
    tls: Annotated[bool, typer.Option(help="TLS and node authentication.")] = True,
    keep: Annotated[bool, typer.Option(help="Stay up after the run, until Ctrl-C.")] = False,
) -> None:
    """Run an app on a real federation of processes on this machine; Ctrl-C stops everything."""
    place = (directory or new_directory("deploy")).expanduser().resolve()
    overrides = parse_overrides(run_config)
    config_argument({"directory": str(place), "data-dir": str(data_dir or "")} | overrides)
    if app is None:
        data = (data_dir or place / "data").expanduser().resolve()
        own: Values = {"clients": nodes, "run-dir": str(place / RUN), "data-dir": str(data)}
        overrides = own | overrides
        RunConfig.parse(overrides)
    check_writable("directory", place)
    options: dict[str, Any] = {"nodes": nodes, "tls": tls, "data_dir": data_dir, "keep": keep}
    raise typer.Exit(deploy_local(app or CLONE, place, run_config=overrides, **options))


def parse_overrides(text: str) -> Values:
    """Read overrides as `flwr run --run-config` does, which itself drops what it cannot read."""
    rest = re.sub(r"""[^\s=]+=('[^']*'|"[^"]*"|[^\s'"]+)(\s|$)""", "", text)
    try:
        if rest.strip():
            raise ValueError(f"{rest.strip()!r} is not")
        return dict(_flower.parse_config_args([text] if text else None))
    except click.ClickException:
        reason = "a value must be a number, true, false or a text in quotes"
    except ValueError as error:
        reason = str(error)
    raise ConfigError(f"run-config is {text!r}, but must be like key=1 other='text' ({reason}).")


def resume_deployment(run: Path, config: RunConfig, federation: str | None) -> int:
    """Go on with a training on the deployment `federation`, or on the local one that it is of."""
    own = RunConfig().to_dict()
    values = {key: value for key, value in config.to_dict().items() if value != own[key]}
    if federation is not None:
        flower = Path(sysconfig.get_path("scripts")) / "flwr"
        command = [str(flower), "run", str(CLONE), federation, "--stream"]
        return subprocess.call([*command, "--run-config", config_argument(values)])
    place = run.parent
    if run.name != RUN or not (place / "superlink.db").exists():
        raise ConfigError(
            f"{run} is a run on a deployment: name that with --federation, as in "
            "~/.flwr/config.toml."
        )
    data = Path(config.data_dir) if config.data_dir else None
    nodes, tls = len(list(place.glob("node-*"))), (place / "secrets").is_dir()
    return deploy_local(CLONE, place, nodes=nodes, tls=tls, run_config=values, data_dir=data)
