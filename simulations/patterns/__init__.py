"""How clients come and go, one family of patterns per file; `PATTERNS` finds them by name."""

from simulations.patterns.base import Pattern
from simulations.registry import Registry

PATTERNS: Registry[Pattern] = Registry(Pattern, __name__, "fedau.patterns")

__all__ = ["PATTERNS", "Pattern"]
