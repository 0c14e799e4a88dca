"""The paper's studies, FedAWE's, and one of our own, as lists of runs: methods, settings, seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from simulations.cli.invocation import distinct, method_settings, run_name
from simulations.config import ConfigError, RunConfig, key_of

PAPER_METHODS = ("fedau:0", "fedau:50", "average-participating", "average-all", "fedvarp", "mifa",
                 "known-statistics")  # fmt: skip
CUTOFFS = (1, 5, 10, 50, 100, 500, 1000, 100_000)
FLOORS = (0.02, 0.01, 0.005, 0.001, 0.0)
MEANS = (0.1, 0.01, 0.001)


@dataclass(frozen=True)
class Study:
    """What a study varies, and the kinds of plots that it draws of its runs.

    `axes` are the settings that vary beside method and seed, with their values, and `fixed` others
    that are not the run config's defaults; `lr` has the γ of methods that do not share it. What
    depends on participation alone trains nothing.
    """

    axes: Mapping[str, tuple[Any, ...]]
    methods: tuple[str, ...] = PAPER_METHODS
    fixed: Mapping[str, Any] = field(default_factory=dict)
    lr: Mapping[str, float] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("curves",)
    trains: bool = True


_FEDAWE = "fedawe:clip=0.5:mean=true"
"""As its authors' program has it: a step is clipped, and the mean of all models is evaluated."""

_CIFAR = {"dataset": ("cifar10",), "pattern": ("bernoulli",)}

STUDIES: Mapping[str, Study] = {
    "main": Study({
        "dataset": ("svhn", "cifar10", "cifar100", "cinic10"),
        "pattern": ("bernoulli", "markov", "cyclic"),
    }),
    "heterogeneity": Study({**_CIFAR, "alpha_participation": (0.01, 0.05, 0.1, 0.5, 1.0)}),
    "low-participation": Study(
        {**_CIFAR, "mean_participation": MEANS},
        methods=PAPER_METHODS[1:],
        fixed={"min_participation": 0.0},
    ),
    "cutoff": Study(
        {**_CIFAR, "min_participation": FLOORS},
        methods=tuple(f"fedau:{cutoff}" for cutoff in CUTOFFS),
        kinds=("cutoff",),
    ),
    "spread": Study(_CIFAR, methods=PAPER_METHODS[:4], kinds=("curves", "clients")),
    "weights": Study(
        {**_CIFAR, "pattern": ("bernoulli", "cyclic")}, methods=("fedau:0",), trains=False
    ),
    "patterns": Study(_CIFAR, methods=("fedau:0",), trains=False),
    "fedawe": Study(
        {
            "dataset": ("svhn", "cifar10"),
            "pattern": ("bernoulli", "staircase:length=10",
                        "sine:period=20:amplitude=0.3:level=0.7", "interleaved-sine"),
        },
        methods=(_FEDAWE, *PAPER_METHODS[1:]),
        fixed={"num_server_rounds": 2000, "clients": 100, "draw": "fedawe", "local_steps": 10,
               "batch_size": 128, "lr": 0.05, "server_lr": 1.0, "lr_decay": 0.1},
        lr={_FEDAWE: 0.1, "known-statistics": 0.1},
    ),
    "privacy": Study(
        {
            "dataset": ("synthetic:train=12000:test=3000",),
            "pattern": ("bernoulli",),
            "privacy": (
                "none", "gaussian:norm=5", "gaussian:norm=5:separation=20",
                "matrix:norm=5:separation=20", "gaussian:norm=20",
                "gaussian:norm=20:separation=20", "matrix:norm=20:separation=20",
            ),
        },
        methods=("fedau:80",),
        fixed={"num_server_rounds": 300, "clients": 2000, "min_participation": 0.05,
               "local_steps": 2, "lr": 0.25, "server_lr": 1.0},
    ),
}  # fmt: skip


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
    """Return the runs of a study, each with its own directory below `parent`.

    Settings and methods that the user has given take the place of the study's; a text with commas
    has several values for one of its axes.
    """
    axes = {key: _values(given.get(key), values) for key, values in chosen.axes.items()}
    others = {key: value for key, value in given.items() if key not in axes}
    common = {"num_server_rounds": 0, **chosen.fixed, **others}
    configs = []
    for point, seed, method in product(product(*axes.values()), seeds, methods or chosen.methods):
        place = dict(zip(axes, point, strict=True))
        own = {"lr": chosen.lr[method]} if method in chosen.lr and "lr" not in given else {}
        config = RunConfig(**{**common, **place, **method_settings(method), **own, "seed": seed})
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
    for key in [key for key in axes if key not in ("dataset", "pattern")]:
        value = getattr(config, key)
        parts.append(config.protection.slug if key == "privacy" else f"{key_of(key)}-{value:g}")
    return "-".join(parts)
