"""Every import from Flower that is not public API, in this one place.

A name is looked up when it is first used, so that a Flower that has moved one of them breaks what
needs it and nothing else.
"""

from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

from ._log import log

TESTED = ("1.41", "1.42")
"""The oldest and the newest Flower that the tests of this version have run on."""

_HOMES = {
    # Error replies would have no code, and be counted as failures of the app.
    "ErrorCode": "flwr.common.constant",
    # Without these five there is no in-process grid: tests have to run a SuperLink.
    "SUPERLINK_NODE_ID": "flwr.common.constant",
    "message_from_proto": "flwr.common.serde",
    "message_to_proto": "flwr.common.serde",
    "Run": "flwr.supercore.run",
    "TaskIdentity": "flwr.supercore.task_identity",
    # The command line could not read overrides as `flwr run` does.
    "parse_config_args": "flwr.common.config",
    # The benchmark could neither weigh a reply nor run SecAgg+ beside ours.
    "recorddict_to_proto": "flwr.common.serde",
    "recorddict_compat": "flwr.compat.common",
    "MAIN_CONFIGS_RECORD": "flwr.server.workflow.constant",
    "MAIN_PARAMS_RECORD": "flwr.server.workflow.constant",
    # A simulation's grid would be taken for one that may miss deadlines, and be polled.
    "InMemoryGrid": "flwr.superlink.grid",
    # Nodes could not tell which app they run, and refuse those that their owners do not allow.
    "build_fab_from_disk": "flwr.cli.build",
    "get_flwr_home": "flwr.supercore.utils",
    "flwr_clientapp": "flwr.supernode.cli",
    "install_from_fab": "flwr.supernode.runtime.run_clientapp",
    "pull_task_input": "flwr.supernode.runtime.run_clientapp",
    # Simulations would wait a tenth of a second for every exchange.
    "InMemoryLinkState": "flwr.server.superlink.linkstate",
    # Workers of a simulation would be idle between two messages.
    "ClientAppException": "flwr.clientapp.client_app",
    "RayBackend": "flwr.server.superlink.fleet.vce.backend.raybackend",
    # `flwr run .` on a deployment would need pattern="deployment" in its run config.
    "HttpGrid": "flwr.superlink.grid",
}


@cache
def note_version() -> None:
    """Say once if Flower is newer than what was tested; it may well work."""
    installed = version("flwr")
    if _order(installed) > _order(TESTED[1]):
        words = "Flower %s is newer than what this fedau-flwr was tested with (%s to %s)."
        log.info(words, installed, *TESTED)


def _order(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2] if part.isdecimal())


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def replace(name: str, value: Any) -> None:
    """Put something of ours in the place of a name, which has to be there."""
    getattr(import_module(_HOMES[name]), name)
    setattr(import_module(_HOMES[name]), name, value)
