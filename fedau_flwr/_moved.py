"""Modules of version 0.1 under the names that its documentation gave them.

An import by an old name goes on working, with a `DeprecationWarning` that says the new one.
"""

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MODULES = {
    "delivery": "server.deadlines",
    "groups": "server.groups",
    "host": "client.host",
    "mod": "client.mod",
}
NAMES = {"PunctualGrid": "DeadlineGrid", "punctual": "with_deadline"}


class _OldNames(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        known = package == __package__ and name in MODULES
        return ModuleSpec(fullname, self) if known else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = f"{__package__}.{MODULES[spec.name.rpartition('.')[2]]}"
        warnings.warn(f"{spec.name} is {new} since version 0.2.", DeprecationWarning, stacklevel=2)
        module = importlib.import_module(new)
        old = ModuleType(spec.name, module.__doc__)
        vars(old).update({k: v for k, v in vars(module).items() if not k.startswith("__")})
        vars(old).update({was: vars(old)[now] for was, now in NAMES.items() if now in vars(old)})
        return old

    def exec_module(self, module: ModuleType) -> None:
        """Everything is there already."""


def install() -> None:
    """Let imports by old names find the new modules."""
    sys.meta_path.append(_OldNames())
