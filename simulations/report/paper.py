"""The numbers that the paper published, to be put beside ours.

``paper.csv`` has the accuracies in per cent over five seeds, of the last 200 rounds, of its main
table and of its studies of participation heterogeneity and of low participation.
"""

import csv
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from simulations.config import RunConfig
from simulations.patterns.stationary import CyclicPattern
from simulations.report.setting import Setting

_FILE = Path(__file__).with_name("paper.csv")
SEEDS = 5
"""Behind each of the paper's means."""

_KEYS = ("alpha-participation", "mean-participation", "min-participation")

_SPREAD = {
    "fedau:0": (0.017, 9.9, 11.7),
    "fedau:50": (0.016, 9.5, 11.2),
    "average-participating": (0.031, 13.3, 11.6),
    "average-all": (0.030, 13.3, 12.2),
}
"""Of CIFAR-10 under Bernoulli participation."""


@dataclass(frozen=True)
class Published:
    """What the paper has for one setting: means over seeds with their standard deviations.

    ``spread`` is the standard deviation over clients of loss, training and test accuracy; its loss
    is in a unit of its own, so that only the order of methods can be compared.
    """

    train: tuple[float, float]
    test: tuple[float, float]
    spread: tuple[float, float, float] | None = None


def published(setting: Setting) -> Published | None:
    """Return the paper's numbers for a setting, if all that matters is as it was there.

    Augmentation may be drawn per image or per batch, batches may continue or not, split and
    probabilities may be drawn by us or as by the paper's authors, and both variants of the cyclic
    pattern stand beside the paper's cyclic rows.
    """
    return _published().get(_as_published(setting))


def not_run(settings: Iterable[Setting]) -> list[Setting]:
    """Return what the same table of the paper has beside these settings: other cells than theirs.

    Each is like one of them but for pattern and method.
    """
    found = {_as_published(setting): setting for setting in settings}
    tables = {_of_any_pattern(cell): setting for cell, setting in found.items()}
    others = [cell for cell in _published() if cell not in found]
    pairs = [(cell, tables.get(_of_any_pattern(cell))) for cell in others]
    own = ("pattern", "method", "lr", "server_lr")
    return [replace(like, **{k: getattr(cell, k) for k in own}) for cell, like in pairs if like]


def shortened(setting: Setting) -> int | None:
    """Return the paper's number of rounds if that is all in which a run falls short of it.

    The method may be one that the paper does not have. Runs of less than a tenth of the paper's
    rounds are none that it could be compared with.
    """
    rounds = _lengths().get(_of_any_method(_as_published(setting)))
    return rounds if rounds and rounds <= 10 * setting.rounds < 10 * rounds else None


def _as_published(setting: Setting) -> Setting:
    pattern = setting.pattern
    if isinstance(pattern, CyclicPattern):
        pattern = CyclicPattern(pattern.period)
    ours: dict[str, Any] = {"augmentation": "per-image", "batches": "per-round", "draw": "own"}
    return replace(setting, pattern=pattern, **ours)


def _of_any_pattern(cell: Setting) -> Setting:
    return replace(cell.whatever_the_method(), pattern=CyclicPattern())


def _of_any_method(setting: Setting) -> Setting:
    return replace(setting.whatever_the_method(), rounds=0)


@cache
def _lengths() -> dict[Setting, int]:
    return {_of_any_method(setting): setting.rounds for setting in _published()}


@cache
def _published() -> dict[Setting, Published]:
    spread = {_setting("cifar10", "bernoulli", name): values for name, values in _SPREAD.items()}
    found = {}
    with _FILE.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            levels = {key.replace("-", "_"): float(row[key]) for key in _KEYS}
            setting = _setting(row["dataset"], row["pattern"], row["method"], **levels)
            train, test = ((float(row[k]), float(row[f"{k}-std"])) for k in ("train", "test"))
            found[setting] = Published(train, test, spread.get(setting))
    return found


def _setting(dataset: str, pattern: str, method: str, **levels: float) -> Setting:
    """Return a setting that is the paper's in all other respects."""
    place: dict[str, Any] = {"dataset": dataset, "pattern": pattern, "method": method, **levels}
    return Setting.of(RunConfig(num_server_rounds=0, **place))
