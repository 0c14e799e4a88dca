"""The page's files, and the page as one file with the data of runs inside."""

import base64
import hashlib
import json
import math
import zlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from fedau_flwr.files import save_text
from simulations.config import ConfigError
from simulations.page.raster import raster_of
from simulations.page.tree import Tree
from simulations.page.view import RunView

ASSETS = Path(__file__).parent / "assets"

SCRIPTS = (
    "core", "chart", "curves", "runs", "raster", "bars", "zoom", "clients", "served", "federation",
    "main",
)  # fmt: skip
"""In this order they are one script."""

MOST_RASTERS, MOST_CELLS = 900_000, 500_000
"""Bytes of all rasters in a report, and cells of one: 250 clients in 2,000 rounds."""

_DIGITS = 5
"""Of numbers in a report; a page that is served has all."""

_POLICY = "default-src 'none'; img-src data:; style-src {style}; script-src {script}; {more}"
SERVED_POLICY = _POLICY.format(
    style="'self'",
    script="'self'",
    more="connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
)


def asset(name: str) -> str:
    """Return a file of the page: page.html as it is served, its style sheet page.css, a script."""
    return (ASSETS / name).read_text(encoding="utf-8")


def script() -> str:
    """Return all scripts as one."""
    texts = [asset(f"{name}.js") for name in SCRIPTS]
    return '"use strict";\n(() => {\n' + "\n".join(texts) + "\n})();\n"


def write_report(directory: Path, out: Path, *, only: Iterable[str] | None = None) -> Path:
    """Write the runs below `directory` as one file that opens from disk, and return its path.

    With `only` these alone, given by their paths from there.
    """
    tree = Tree(directory, only=only)
    changes = {**tree.changes(), "name": out.parent.name if only else tree.name}
    if not tree.views:
        raise ConfigError(f"DIR is {str(directory)!r}, but must hold at least one run.")
    rasters, blocks = _rasters(tree.views, changes["panels"] or [])
    data = {
        **changes,
        "rasters": rasters,
        "made": datetime.now().astimezone().isoformat(timespec="minutes"),
        "details": _details(tree.views.values()),
    }
    text = json.dumps(_rounded(data), allow_nan=False, ensure_ascii=False)
    # Whoever gets the file need not know where this machine keeps its own.
    for place in (f"{tree.root}/", str(tree.root)):
        text = text.replace(json.dumps(place, ensure_ascii=False)[1:-1], "")
    blocks["data"] = _packed(text.encode())
    page, css, js = asset("page.html"), asset("page.css"), script()
    policy = _POLICY.format(style=_hashed(css), script=_hashed(js), more="base-uri 'none'")
    for old, new in (
        ("<!-- policy -->", f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        ('<link rel="stylesheet" href="page.css">', f"<style>{css}</style>"),
        ('<script src="page.js"></script>', _embedded(blocks) + f"<script>{js}</script>"),
    ):
        page = page.replace(old, new)
    out.parent.mkdir(parents=True, exist_ok=True)
    save_text(out, page)
    return out


def _embedded(blocks: dict[str, str]) -> str:
    head = '<script type="text/plain" id="block-'
    return "".join(f'{head}{name}">{text}</script>\n' for name, text in blocks.items())


def _rasters(
    views: Mapping[str, RunView], panels: list[dict[str, Any]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return which block is a run's raster, and the blocks, as long as there is room.

    Runs under the same participation share one; the first of each comparison go first.
    """
    first = [line["runs"][0] for panel in panels for line in panel["lines"][:1]]
    rasters: dict[str, str] = {}
    blocks: dict[str, str] = {}
    room = MOST_RASTERS
    for key in dict.fromkeys([*first, *views]):
        if room < MOST_RASTERS // 20:
            break
        if (found := raster_of(views[key], most=MOST_CELLS)) is None:
            continue
        head = json.dumps({**found.to_dict(), "packed": ""}).encode()
        text = _packed(head + b"\n" + found.packed)
        name = next((name for name, block in blocks.items() if block == text), None)
        if name is None and len(text) <= room:
            room -= len(text)
            name = f"raster-{len(blocks)}"
            blocks[name] = text
        if name is not None:
            rasters[key] = name
    return rasters, blocks


def _details(views: Iterable[RunView]) -> dict[str, Any]:
    """Return the details of runs; what is the same in an earlier one, is that one's id."""
    seen: dict[bytes, str] = {}
    found = {}
    for view in views:
        found[view.id] = details = view.details()
        for key, values in details["clients"].items():
            owner = seen.setdefault(key.encode() + values.tobytes(), view.id)
            details["clients"][key] = values.tolist() if owner == view.id else owner
    return found


def _packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value
