"""The paper's studies as lists of runs: methods, settings and seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from simulations.cli.invocation import distinct, method_settings, run_name
from simulations.config import ConfigError, RunConfig, key_of

PAPER_METHODS = (
    "fedau:0",
    "fedau:50",
    "average-participating",
    "average-all",
    "fedvarp",
    "mifa",
    "known-statistics",
)
CUTOFFS = (1, 5, 10, 50, 100, 500, 1000, 100_000)
FLOORS = (0.02, 0.01, 0.005, 0.001, 0.0)
MEANS = (0.1, 0.01, 0.001)


@dataclass(frozen=True)
class Study:
    """What a study varies.

    Parameters
    ----------
    title : str
        What it shows, in a few words.
    methods : tuple[str, ...]
        As the option --methods has them.
    axes : Mapping[str, tuple[Any, ...]]
        The settings that vary beside method and seed, with their values.
    fixed : Mapping[str, Any]
        Settings that are not the run config's defaults.
    kinds : tuple[str, ...]
        The plots that it draws of its runs.
    trains : bool
        False for what depends on participation alone.
    """

    title: str
    methods: tuple[str, ...] = PAPER_METHODS
    axes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("curves",)
    trains: bool = True


_CIFAR = {"dataset": ("cifar10",), "pattern": ("bernoulli",)}

STUDIES: Mapping[str, Study] = {
    "main": Study(
        "the main table",
        axes={
            "dataset": ("svhn", "cifar10", "cifar100", "cinic10"),
            "pattern": ("bernoulli", "markov", "cyclic"),
        },
    ),
    "heterogeneity": Study(
        "how much participation differs",
        axes={**_CIFAR, "alpha_participation": (0.01, 0.05, 0.1, 0.5, 1.0)},
    ),
    "low-participation": Study(
        "clients that hardly ever come",
        methods=PAPER_METHODS[1:],
        axes={**_CIFAR, "mean_participation": MEANS},
        fixed={"min_participation": 0.0},
    ),
    "cutoff": Study(
        "accuracy against the cutoff K",
        methods=tuple(f"fedau:{cutoff}" for cutoff in CUTOFFS),
        axes={**_CIFAR, "min_participation": FLOORS},
        kinds=("cutoff",),
    ),
    "spread": Study(
        "loss and accuracy over clients",
        methods=PAPER_METHODS[:4],
        axes=_CIFAR,
        kinds=("curves", "clients"),
    ),
    "weights": Study(
        "the weights against 1/p",
        methods=("fedau:0",),
        axes={"dataset": ("cifar10",), "pattern": ("bernoulli", "cyclic")},
        trains=False,
    ),
    "patterns": Study("pictures of participation", methods=("fedau:0",), axes=_CIFAR, trains=False),
}


def study(name: str) -> Study:
    """Return the study of this name."""
    if name not in STUDIES:
        raise ConfigError(f"NAME is {name!r}, but must be one of {', '.join(STUDIES)}.")
    return STUDIES[name]


def study_configs(
    chosen: Study,
    given: Mapping[str, Any],
    *,
    seeds: Sequence[int],
    parent: Path,
    methods: Sequence[str] | None = None,
) -> list[RunConfig]:
    """Return the runs of a study.

    Parameters
    ----------
    given : Mapping[str, Any]
        Settings of the user, which take the place of the study's; a text with commas has several
        values for one of its axes.
    seeds : Sequence[int]
        The seeds.
    parent : Path
        The directory below which each run has its own.
    methods : Sequence[str] | None
        Methods instead of the study's.
    """
    axes = {key: _values(given.get(key), values) for key, values in chosen.axes.items()}
    others = {key: value for key, value in given.items() if key not in axes}
    common = {"num_server_rounds": 0, **chosen.fixed, **others}
    configs = []
    for point, seed, method in product(product(*axes.values()), seeds, methods or chosen.methods):
        place = dict(zip(axes, point, strict=True))
        config = RunConfig(**{**common, **place, **method_settings(method), "seed": seed})
        folder = parent / _folder(config, axes) / run_name(config)
        configs.append(replace(config, run_dir=str(folder)))
    return distinct(configs)


def _values(given: Any, own: tuple[Any, ...]) -> tuple[Any, ...]:
    if given is None:
        return own
    return tuple(part.strip() for part in given.split(",")) if isinstance(given, str) else (given,)


def _folder(config: RunConfig, axes: Mapping[str, Any]) -> str:
    """Return the directory of the runs with the same settings."""
    parts = [config.task.slug, config.participation.slug]
    numbers = [key for key in axes if key not in ("dataset", "pattern")]
    return "-".join(parts + [f"{key_of(key)}-{getattr(config, key):g}" for key in numbers])
