"""What keeps a run's sums private, one way per class; `PRIVACY` finds them by name."""

from simulations.privacy.base import Privacy
from simulations.registry import Registry

PRIVACY: Registry[Privacy] = Registry(Privacy, __name__, "fedau.privacy")

__all__ = ["PRIVACY", "Privacy"]
