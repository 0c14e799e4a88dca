"""The methods that can be compared, one per file; `METHODS` finds them by name."""

from simulations.methods.base import Look, Method
from simulations.registry import Registry

METHODS: Registry[Method] = Registry(Method, __name__, "fedau.methods")

__all__ = ["METHODS", "Look", "Method"]
