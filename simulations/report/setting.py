"""What distinguishes runs from each other beside their seed, and how tables and plots say it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from simulations.config import RunConfig
from simulations.methods import Method
from simulations.patterns import Pattern
from simulations.tasks import Task

MOST_COLUMNS = 5
"""Settings that a table has columns for; more than these are named where they are unusual."""


def _named(name: str, *, within: tuple[str, ...] = ()) -> Any:
    """Return a field with its name in tables; it counts as varying only `within` equal ones."""
    return field(metadata={"name": name, "within": within})


@dataclass(frozen=True)
class Setting:
    """The settings that change a result, as they took effect: runs that share one are seeds.

    ``method`` is None where settings are compared whatever the method.
    """

    task: Task = _named("data set")  # noqa: RUF009
    pattern: Pattern = _named("pattern")  # noqa: RUF009
    method: Method | None = _named("method")  # noqa: RUF009
    clients: int = _named("N")
    rounds: int = _named("rounds", within=("task",))
    alpha_data: float = _named("α_d")
    alpha_participation: float = _named("α_p")
    mean_participation: float = _named("mean p")
    min_participation: float = _named("min p")
    draw: str = _named("draw")
    local_steps: int = _named("I")
    batch_size: int = _named("batch")
    lr: float = _named("γ", within=("task", "method"))
    server_lr: float = _named("η", within=("task", "method"))
    lr_decay: float = _named("decay of γ")
    augmentation: str = _named("augmentation")
    batches: str = _named("batches")
    reply_loss: float = _named("reply loss")
    secure_sum: bool = _named("secure sum")
    privacy: str = _named("privacy")

    @classmethod
    def of(cls, config: RunConfig) -> Self:
        """Return the setting of a run."""
        effects = {"pattern": "participation", "method": "algorithm", "lr": "local_lr",
                   "server_lr": "global_lr"}  # fmt: skip
        names = {item.name: effects.get(item.name, item.name) for item in fields(cls)}
        return cls(**{name: getattr(config, source) for name, source in names.items()})

    def whatever_the_method(self) -> Self:
        """Return the setting without the method and its step sizes."""
        return replace(self, method=None, lr=0.0, server_lr=0.0)

    def order(self) -> tuple[Any, ...]:
        """Return a key that sorts settings as the paper's tables do."""
        rest = [getattr(self.whatever_the_method(), item.name) for item in fields(self)[3:]]
        method = self.method.order() if self.method else ()
        return (self.task.order(), self.pattern.order(), rest, method, (self.lr, self.server_lr))

    def values(self) -> dict[str, Any]:
        """Return what can vary by key: the fields, and parameters of task and pattern."""
        found = {item.name: getattr(self, item.name) for item in fields(self)[3:]}
        for kind, entry in (("task", self.task), ("pattern", self.pattern)):
            for item in fields(entry):
                found[f"{kind}.{item.name}"] = getattr(entry, item.name)
        return found


def varying(settings: Iterable[Setting]) -> list[str]:
    """Return the keys in which settings differ, beside those that are always shown.

    Rounds and step sizes have values of their own for each task and method, and parameters belong
    to one task or pattern; that these differ is nothing that a reader must be told.
    """
    values: dict[str, dict[tuple[Any, ...], set[Any]]] = {}
    scopes = {item.name: item.metadata["within"] for item in fields(Setting)}
    for setting in settings:
        for key, value in setting.values().items():
            within = [getattr(setting, n) for n in scopes.get(key, (key.partition(".")[0],))]
            # Tasks are compared by their kind, and so is what a parameter belongs to.
            scope = tuple(type(v) if "." in key or isinstance(v, Task) else v for v in within)
            values.setdefault(key, {}).setdefault(scope, set()).add(value)
    return [key for key, by in values.items() if any(len(some) > 1 for some in by.values())]


def shown_values(config: RunConfig) -> dict[str, Any]:
    """Return what others are told of a run's settings: nothing of it is a place on this machine."""
    own = ("run-dir", "data-dir", "resume")
    return {key: value for key, value in config.to_dict().items() if key not in own}


def display_name(key: str) -> str:
    """Return what a key of `Setting` is called in tables and plots."""
    names = {item.name: item.metadata["name"] for item in fields(Setting)}
    return str(names.get(key, key.partition(".")[2]))


def display_value(setting: Setting, key: str) -> str:
    """Return the value of a key as tables and plots show it, empty where there is none."""
    head = {"task": setting.task.title, "pattern": setting.pattern.name,
            "method": setting.method.label if setting.method else ""}  # fmt: skip
    value = {**setting.values(), **head}.get(key, "")
    return f"{value:g}" if isinstance(value, float) else str(value)


def described(setting: Setting, keys: Iterable[str], sign: str = " = ") -> list[str]:
    """Return the values of keys with their names."""
    return [f"{display_name(key)}{sign}{display_value(setting, key)}" for key in keys]


@dataclass(frozen=True)
class Columns:
    """How a table or a title tells settings apart, beside data set, pattern and method.

    Few keys are columns of their own; of many, each row names those in which it is unusual.
    """

    keys: tuple[str, ...]
    usual: dict[str, str]

    @classmethod
    def of(cls, settings: Iterable[Setting]) -> Self:
        """Return the columns for these settings."""
        settings = list(dict.fromkeys(settings))
        keys = varying(settings)
        if len(keys) <= MOST_COLUMNS:
            return cls(tuple(keys), {})
        counts = {key: Counter(display_value(s, key) for s in settings) for key in keys}
        return cls(tuple(keys), {key: count.most_common(1)[0][0] for key, count in counts.items()})

    @property
    def names(self) -> list[str]:
        """The names of a table's first columns, which say what was run."""
        own = ["setting"] if self.usual else [display_name(key) for key in self.keys]
        return ["data set", "pattern", *own, "method"]

    def cells(self, setting: Setting) -> list[str]:
        """Return what a row has in these columns."""
        own = [", ".join(described(setting, self.shown(setting)))]
        if not self.usual:
            own = [display_value(setting, key) for key in self.keys]
        first, second, last = (display_value(setting, key) for key in ("task", "pattern", "method"))
        return [first, second, *own, last]

    def shown(self, setting: Setting, without: Sequence[str] = ()) -> list[str]:
        """Return the keys that are worth naming for a setting."""
        return [
            key
            for key in self.keys
            if key not in without and display_value(setting, key) not in ("", self.usual.get(key))
        ]
