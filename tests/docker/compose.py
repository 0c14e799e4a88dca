"""Read the compose files as Docker would: variables filled in, overlays applied."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

DOCKER = Path(__file__).parents[2] / "docker"
STACKS = [
    ("server.yml",),
    ("server.yml", "server.monitoring.yml"),
    ("client.yml",),
    ("client.yml", "client.tls.yml"),
    ("client.yml", "client.gpu.yml"),
    ("client.yml", "client.local.yml"),
    ("client.yml", "client.local.yml", "client.tls.yml", "client.gpu.yml"),
]
VARIABLES = {
    "SUPERLINK": "superlink:8000",
    "NODE": "node-0",
    "PARTITION_ID": "0",
    "NUM_PARTITIONS": "1",
    "DATA_DIR": "/srv/data",
}


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``${NAME:-default}`` and ``${NAME:?reason}``."""

    def value(match: re.Match[str]) -> str:
        name, operator, rest = match[1], match[2], match[3]
        if name in variables:
            return variables[name]
        if operator == ":-":
            return rest
        raise KeyError(f"{name} is not set: {rest}")

    return re.sub(r"\$\{([A-Z_]+)(:-|:\?)([^}]*)\}", value, text)


def merge(base: Any, overlay: Any, *, key: str = "") -> Any:
    """Lay one file over another: commands and tests are replaced, other lists are joined."""
    if isinstance(base, dict) and isinstance(overlay, dict):
        keys = [*base, *(name for name in overlay if name not in base)]
        return {
            name: merge(base[name], overlay[name], key=name)
            if name in base and name in overlay
            else base.get(name, overlay.get(name))
            for name in keys
        }
    if isinstance(base, list) and isinstance(overlay, list) and key not in ("command", "test"):
        return [*base, *(item for item in overlay if item not in base)]
    return overlay


def load_stack(files: tuple[str, ...], variables: Mapping[str, str] = VARIABLES) -> dict[str, Any]:
    """Return the project that these files describe together."""
    project: dict[str, Any] = {}
    for name in files:
        text = interpolate((DOCKER / name).read_text(), variables)
        project = merge(project, yaml.safe_load(text))
    return project
