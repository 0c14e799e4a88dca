"""``fedau deploy local``, and what ``fedau resume`` does for a training on a deployment."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import click
import typer
from flwr.common.config import parse_config_args

from simulations.cli.invocation import new_directory, sentences
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
    with sentences():
        place = (directory or new_directory("deploy")).expanduser().resolve()
        overrides = parse_overrides(run_config)
        config_argument({"directory": str(place), "data-dir": str(data_dir or "")} | overrides)
        if app is None:
            overrides = own_settings(place, nodes, data_dir) | overrides
            RunConfig.parse(overrides)
        check_writable("directory", place)
        status = deploy_local(
            app or CLONE,
            place,
            nodes=nodes,
            tls=tls,
            run_config=overrides,
            data_dir=data_dir,
            keep=keep,
        )
        raise typer.Exit(status)


def parse_overrides(text: str) -> Values:
    """Read overrides as `flwr run --run-config` does, which itself drops what it cannot read."""
    rest = re.sub(r"""[^\s=]+=('[^']*'|"[^"]*"|[^\s'"]+)(\s|$)""", "", text)
    try:
        if rest.strip():
            raise ValueError(f"{rest.strip()!r} is not")
        return dict(parse_config_args([text] if text else None))
    except click.ClickException:
        reason = "a value must be a number, true, false or a text in quotes"
    except ValueError as error:
        reason = str(error)
    raise ConfigError(f"run-config is {text!r}, but must be like key=1 other='text' ({reason}).")


def own_settings(place: Path, nodes: int, data_dir: Path | None) -> Values:
    """Return what the suite's own app needs to know of a local federation."""
    data = data_dir or place / "data"
    return {
        "clients": nodes,
        "run-dir": str(place / RUN),
        "data-dir": str(data.expanduser().resolve()),
    }


def resume_deployment(run: Path, config: RunConfig, federation: str | None) -> int:
    """Go on with a training on the deployment `federation`, or on the local one that it is of."""
    values = config_overrides(config)
    if federation is not None:
        flower = Path(sysconfig.get_path("scripts")) / "flwr"
        command = [str(flower), "run", str(CLONE), federation, "--stream"]
        return subprocess.call([*command, "--run-config", config_argument(values)])
    place = run.parent
    nodes = len(list(place.glob("node-*")))
    if run.name != RUN or not (place / "superlink.db").exists():
        raise ConfigError(
            f"{run} is a run on a deployment: name that with --federation, as in "
            "~/.flwr/config.toml."
        )
    tls = (place / "secrets").is_dir()
    return deploy_local(
        CLONE,
        place,
        nodes=nodes,
        tls=tls,
        run_config=values,
        data_dir=Path(config.data_dir) if config.data_dir else None,
    )


def config_overrides(config: RunConfig) -> Values:
    """Return the settings that differ from the app's own."""
    own: Mapping[str, Any] = RunConfig().to_dict()
    return {key: value for key, value in config.to_dict().items() if value != own[key]}


def register(app: typer.Typer) -> None:
    """Add the commands."""
    deploy = typer.Typer(help="Real federations.", no_args_is_help=True)
    deploy.command("local")(local)

    # One command alone would become `fedau deploy` itself.
    @deploy.callback()
    def _deploy() -> None:
        """Real federations."""

    app.add_typer(deploy, name="deploy")
