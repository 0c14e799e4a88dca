"""What distinguishes runs from each other beside their seed, and how tables and plots say it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from simulations.config import RunConfig
from simulations.patterns.builders import PATTERNS
from simulations.runs.summary import label
from simulations.tasks.spec import DATASETS, METHODS, dataset

ALWAYS_SHOWN = ("dataset", "pattern", "method")


def _named(name: str, *, within: tuple[str, ...] = ()) -> Any:
    """Return a field with its name in tables; it counts as varying only `within` equal ones."""
    return field(metadata={"name": name, "within": within})


@dataclass(frozen=True)
class Setting:
    """The settings that change a result, as they took effect: runs that share one are seeds.

    ``method`` is the label, which for FedAU has the cutoff in it.
    """

    dataset: str = _named("data set")
    pattern: str = _named("pattern")
    method: str = _named("method")
    clients: int = _named("N")
    rounds: int = _named("rounds", within=("dataset",))
    alpha_data: float = _named("α_d")
    alpha_participation: float = _named("α_p")
    mean_participation: float = _named("mean p")
    min_participation: float = _named("min p")
    draw: str = _named("draw")
    local_steps: int = _named("I")
    batch_size: int = _named("batch")
    lr: float = _named("γ", within=("dataset", "method"))
    server_lr: float = _named("η", within=("dataset", "method"))
    augmentation: str = _named("augmentation")
    reply_loss: float = _named("reply loss")
    secure_sum: bool = _named("secure sum")
    trace: str = _named("trace")
    train_samples: int = _named("train samples", within=("dataset",))
    test_samples: int = _named("test samples", within=("dataset",))

    @classmethod
    def of(cls, config: RunConfig) -> Setting:
        """Return the setting of a run."""
        changed = {
            "method": label(config),
            "rounds": config.rounds,
            "lr": config.local_lr,
            "server_lr": config.global_lr,
            "train_samples": config.spec.train_count,
            "test_samples": config.spec.test_count,
        }
        names = [item.name for item in fields(cls)]
        return cls(**{name: changed.get(name, getattr(config, name, None)) for name in names})

    @property
    def cutoff(self) -> float | None:
        """FedAU's cutoff, which may be infinite; None for other methods."""
        if not self.method.startswith("fedau "):
            return None
        return float(self.method.partition("=")[2].replace("∞", "inf"))

    def order(self) -> tuple[Any, ...]:
        """Return a key that sorts settings as the paper's tables do."""
        name = self.method.partition(" ")[0]
        steps = (self.lr, self.server_lr)
        rest = [getattr(replace(self, lr=0.0, server_lr=0.0), f.name) for f in fields(self)[3:]]
        place = (list(DATASETS).index(self.dataset), PATTERNS.index(self.pattern))
        return (*place, rest, METHODS.index(name), -(self.cutoff or 0.0), steps)


def varying(settings: Iterable[Setting]) -> list[str]:
    """Return the fields in which settings differ, beside those that are always shown.

    Rounds and step sizes have values of their own for each data set and method; that these differ
    is nothing that a reader must be told.
    """
    settings = list(settings)
    found = []
    for item in fields(Setting):
        if item.name in ALWAYS_SHOWN:
            continue
        values: dict[tuple[Any, ...], set[Any]] = {}
        for setting in settings:
            scope = tuple(getattr(setting, name) for name in item.metadata["within"])
            values.setdefault(scope, set()).add(getattr(setting, item.name))
        if any(len(some) > 1 for some in values.values()):
            found.append(item.name)
    return found


def display_name(name: str) -> str:
    """Return what a field of `Setting` is called in tables and plots."""
    return next(item.metadata["name"] for item in fields(Setting) if item.name == name)


def display_value(setting: Setting, name: str) -> str:
    """Return the value of a field as tables and plots show it."""
    value = getattr(setting, name)
    if name == "dataset":
        return dataset(value).title
    return f"{value:g}" if isinstance(value, float) else str(value)
