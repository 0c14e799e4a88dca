"""All runs below a directory as the page shows them, with a number that grows when they change."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from simulations.page.view import RunView
from simulations.report.looks import chosen_looks
from simulations.report.runs import compared, run_paths
from simulations.runs.directory import RunDirectory

LOOK_SECONDS = 3.0
"""Between two looks for new runs; those that are known are looked at whenever somebody asks."""


class Tree:
    """The runs below `root`, at any depth, or `only` some, by their ids: paths from there."""

    def __init__(self, root: Path, *, only: Iterable[str] | None = None) -> None:
        self.root = root.resolve()
        self.name = self.root.name or str(self.root)
        self._only = None if only is None else {*only}
        self.views: dict[str, RunView] = {}
        self.version = 0
        self._looked = 0.0
        self._runs: set[str] = set()
        self._panels: list[dict[str, Any]] = []

    def refresh(self) -> None:
        """Read what is new."""
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            paths = {
                path.relative_to(self.root).as_posix(): path
                for path in run_paths(self.root)
                if path.as_posix() in self._runs or _is_run(path)
            }
            self._runs |= {path.as_posix() for path in paths.values()}
            if self._only is not None:
                paths = {key: path for key, path in paths.items() if key in self._only}
            if paths.keys() != self.views.keys():
                self.version += 1
            known, root = self.views, self.root
            self.views = {key: known.get(key) or RunView(path, root) for key, path in paths.items()}
            self._looked = time.monotonic()
        following = self.version + 1
        changed = [view.refresh(following) for view in self.views.values()]
        if any(changed):
            self.version = following
            self._panels = _panels(self.views.values())

    def changes(self, since: int = 0) -> dict[str, Any]:
        """Return the runs that changed after the version `since`, and which there are at all."""
        self.refresh()
        views = self.views
        return {
            "name": self.name,
            "version": self.version,
            "now": time.time(),
            "ids": list(views),
            "runs": [view.summary for view in views.values() if view.version > since],
            "panels": self._panels if self.version > since else None,
        }


def _is_run(path: Path) -> bool:
    """Return whether a directory is that of a run, not of another program with a config.toml."""
    run = RunDirectory(path)
    try:
        return run.outcome_file.exists() or b"method" in run.config_file.read_bytes()
    except OSError:
        return False


def _panels(views: Iterable[RunView]) -> list[dict[str, Any]]:
    """Return the comparisons that runs make, with the look of each line."""
    pairs = [(view.setting, view) for view in views if view.setting is not None]
    pairs.sort(key=lambda pair: (pair[0].order(), pair[1].summary["seed"]))
    ids: dict[Any, str] = {view: view.id for _, view in pairs}
    panels = []
    for panel in compared(pairs):
        looks = chosen_looks(list(panel.lines), panel.looks)
        lines = []
        for label, some in panel.lines.items():
            colour, dashes, _ = looks[label]
            look = {"colour": colour, "dashes": list(dashes[1]) if dashes != "-" else []}
            lines.append({"label": label, **look, "runs": [ids[view] for view in some]})
        task = {"metric": panel.task.metric.replace("_", " "), "percent": panel.task.percent}
        panels.append({"title": panel.title, **task, "lines": lines})
    return panels
