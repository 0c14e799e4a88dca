"""From the texts of ``--method``, ``--dataset`` and ``--pattern`` to objects.

A text is a name with parameters after colons: ``fedau``, ``fedau:50`` (the first parameter),
``sine:period=20:amplitude=0.3``. A name is that of a class in this suite, or one that an installed
package announces by an entry point. ``package.module:Class``, with parameters after further colons,
is a class that nobody has announced.
"""

import importlib
import inspect
import math
import pkgutil
import re
from abc import ABC
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Generic, TypeVar, cast, get_type_hints

OWN = 100
"""Where users' own stand in tables and lists: after ours."""


class ConfigError(ValueError):
    """A setting that is not allowed; the message is one sentence."""


def wrong(key: str, value: object, rule: str) -> ConfigError:
    """Return the error of a value that breaks a rule."""
    return ConfigError(f"{key} is {value!r}, but must be {rule}.")


def check(key: str, value: object, allowed: bool, rule: str) -> None:
    """Raise `ConfigError` unless a value is allowed."""
    if not allowed:
        raise wrong(key, value, rule)


def parameter(rule: str, allowed: Callable[[Any], bool], default: Any = MISSING) -> Any:
    """Return a field of an entry with the rule that its value must keep."""
    return field(default=default, metadata={"rule": rule, "allowed": allowed})


@dataclass(frozen=True)
class Entry(ABC):
    """What a text can stand for; the fields of a subclass are its parameters.

    A parameter is an `int`, `float`, `bool`, `str` or `tuple[float, ...]` (written 1/0.4), with a
    rule where `parameter` makes it. Equal objects mean the same, however they are written.
    """

    key: ClassVar[str]
    """The setting whose texts stand for it."""

    name: ClassVar[str] = ""
    """Short and in small letters; that of the class by default."""

    place: ClassVar[int] = OWN
    """The smaller, the earlier in tables and lists."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Neither is inherited: what is derived from one of ours is something else.
        if "name" not in cls.__dict__:
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__).lower()
        if "place" not in cls.__dict__:
            cls.place = OWN

    def __post_init__(self) -> None:
        for item in fields(self):
            if "allowed" in item.metadata:
                value, named = getattr(self, item.name), f"{item.name} of {self.key} {self.name}"
                check(named, value, item.metadata["allowed"](value), item.metadata["rule"])

    @classmethod
    def summary(cls) -> str:
        """Return the first line of the docstring, and the parameters with their defaults."""
        line = (inspect.getdoc(cls) or "").partition("\n")[0]
        shown = [
            item.name if item.default is MISSING else f"{item.name}={_written(item.default)}"
            for item in fields(cls)
        ]
        return f"{line} [{', '.join(shown)}]" if shown else line

    def parameters(self) -> list[str]:
        """Return the parameters that are not their defaults, as in a text."""
        values = [(item.name, getattr(self, item.name), item.default) for item in fields(self)]
        return [f"{name}={_written(value)}" for name, value, default in values if value != default]

    @property
    def label(self) -> str:
        """What tables and plots call it."""
        return " ".join([self.name, *self.parameters()])

    @property
    def slug(self) -> str:
        """The label as a part of file names."""
        return re.sub(r"[^A-Za-z0-9.]+", "-", self.label).strip("-")

    def order(self) -> tuple[Any, ...]:
        """Return what tables are sorted by."""
        return self.place, self.name, self.label


E = TypeVar("E", bound=Entry)


class Registry(Generic[E]):
    """The classes of one kind: those in a package of this suite, announced ones, and any other.

    They are derived from `base`, which may be abstract. The group is that of the entry points by
    which other packages announce theirs.
    """

    def __init__(self, base: Callable[..., E], package: str, group: str) -> None:
        self._base = cast("type[E]", base)
        self._key, self._package, self._group = self._base.key, package, group

    @cached_property
    def _ours(self) -> dict[str, type[E]]:
        modules = [
            importlib.import_module(f"{self._package}.{found.name}")
            for found in pkgutil.iter_modules(importlib.import_module(self._package).__path__)
        ]
        classes = {
            item
            for module in modules
            for item in vars(module).values()
            if self._is_one(item) and item.place < OWN
        }
        return {item.name: item for item in sorted(classes, key=lambda item: item.place)}

    @cached_property
    def _announced(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in entry_points(group=self._group)}

    def _is_one(self, item: object) -> bool:
        return isinstance(item, type) and issubclass(item, self._base)

    def ours(self) -> list[str]:
        """Return the names of this suite."""
        return list(self._ours)

    def names(self) -> list[str]:
        """Return all names, ours first."""
        return [*self._ours, *sorted(self._announced.keys() - self._ours.keys())]

    def named(self, name: str) -> type[E]:
        """Return the class of a name."""
        if name in self._ours:
            return self._ours[name]
        point = self._announced.get(name)
        if point is None:
            rule = f"one of {', '.join(self.names())}, or an import path like package.module:Class"
            raise wrong(self._key, name, rule)
        return self._imported(name, *point.value.split(":", 1))

    def find(self, text: str) -> E:
        """Return what a text stands for; `ConfigError` if that is nothing that is allowed."""
        head, *given = text.split(":")
        kind = self._imported(text, head, given.pop(0)) if self._is_path(text) else self.named(head)
        if missing := ", ".join(sorted(getattr(kind, "__abstractmethods__", ()))):
            raise wrong(self._key, text, f"a class that has {missing}")
        try:
            return kind(**_parameters(kind, given, f"{self._key} {kind.name}"))
        except ValueError as error:
            raise ConfigError(str(error)) from None

    def text(self, entry: E) -> str:
        """Return the shortest text that stands for an object."""
        kind = type(entry)
        path = f"{kind.__module__}:{kind.__qualname__}"
        announced = {point.value: n for n, point in self._announced.items() if n not in self._ours}
        ours = self._ours.get(kind.name) is kind
        return ":".join([kind.name if ours else announced.get(path, path), *entry.parameters()])

    def check_imports(self, text: str, allowed: str) -> None:
        """Refuse an import path outside the packages `allowed`, which has commas between them."""
        module = text.split(":", maxsplit=1)[0]
        packages = [item.strip().rstrip(".") for item in allowed.split(",") if item.strip()]
        fine = any(module == item or module.startswith(f"{item}.") for item in packages)
        if self._is_path(text) and not fine:
            rule = f"a name, or in a package that {ALLOW_IMPORT} in this node's config lists"
            raise wrong(self._key, text, rule)

    def _is_path(self, text: str) -> bool:
        """Return whether a text is an import path: names that are known come first."""
        head, *rest = text.split(":")
        words = [*head.split("."), *rest[:1]]
        return bool(rest) and all(map(str.isidentifier, words)) and head not in self.names()

    def _imported(self, text: str, module: str, name: str) -> type[E]:
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            rule = f"something that can be imported ({error})"
            raise wrong(self._key, text, rule) from None
        rule = f"the import path of a class derived from {self._package}.{self._base.__name__}"
        check(self._key, text, self._is_one(found), rule)
        return found  # type: ignore[no-any-return]


ALLOW_IMPORT = "fedau-allow-import"
"""Node config: packages, with commas between them, whose classes a run config may name by import
path on this node. None by default; names that installed packages announce need no such leave."""


def _parameters(kind: type[Entry], given: list[str], what: str) -> dict[str, Any]:
    """Read the parameters of a class."""
    hints = get_type_hints(kind) if given else {}
    names = [item.name for item in fields(kind)]
    values: dict[str, Any] = {}
    for place, part in enumerate(given):
        name, equals, value = part.partition("=")
        name = name.replace("-", "_")  # as the keys of a run config have it
        if not equals:
            name, value = (names[place] if place < len(names) else ""), part
        if name not in names or name in values:
            allowed = f"given once each: {', '.join(names)}" if names else "left out: it has none"
            raise ConfigError(f"{what} has the parameter {part!r}, but its own must be {allowed}.")
        values[name] = _read(f"{name} of {what}", value, hints[name])
    for item in fields(kind):
        if item.default is MISSING and item.name not in values:
            raise ConfigError(f"{item.name} of {what} is missing, but must be given.")
    return values


def _read(key: str, text: str, kind: Any) -> Any:
    """Return the value of a parameter."""
    rules = {int: "an integer", float: "a finite number", bool: "true or false"}
    try:
        if kind is bool:
            return {"true": True, "false": False}[text]
        if kind not in (int, float, str):
            return tuple(map(float, text.split("/")))
        if kind is float and not math.isfinite(float(text)):
            raise ValueError
        return kind(text)
    except (KeyError, ValueError):
        raise wrong(key, text, rules.get(kind, "numbers with / between them")) from None


def _written(value: Any) -> str:
    """Return a value as a text that `_read` reads."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "/".join(_written(item) for item in value)
    return repr(value) if isinstance(value, float) else str(value)
