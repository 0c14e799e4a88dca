"""The tasks that models are trained on, one per file; `TASKS` finds them by name."""

from simulations.registry import Registry
from simulations.tasks.arrays import Arrays, DataError, Part
from simulations.tasks.base import StepSize, Task

TASKS: Registry[Task] = Registry(Task, __name__, "fedau.tasks")

__all__ = ["TASKS", "Arrays", "DataError", "Part", "StepSize", "Task"]
