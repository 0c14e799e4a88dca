"""Amplified FedAvg: another method whose server goes on in the direction of the last rounds."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedau_flwr import Amplified, SumStrategy
from fedau_flwr.weighting import Weighting
from simulations.methods.average_all import AverageAll
from simulations.methods.average_participating import AverageParticipating
from simulations.methods.base import GREY, Method, steps
from simulations.methods.fedau import FedAUMethod
from simulations.methods.frequency import Frequency
from simulations.methods.known_statistics import KnownStatistics
from simulations.registry import parameter
from simulations.tasks.base import StepSize, Task

INNER: dict[str, type[Method]] = {
    kind.name: kind
    for kind in (AverageParticipating, AverageAll, FedAUMethod, Frequency, KnownStatistics)
}


@dataclass(frozen=True)
class AmplifiedMethod(Method):
    """Every period the server goes on by a factor in the direction of another method's rounds."""

    inner: str = parameter(
        f"one of {', '.join(INNER)}", INNER.__contains__, AverageParticipating.name
    )
    period: int = parameter("at least 1", lambda v: v >= 1, 10)
    factor: float = parameter("at least 1", lambda v: v >= 1, 2.0)

    name = "amplified"
    place = 12
    style = GREY
    step_sizes = steps(svhn=(0.1, 1), synthetic=(0.01, 1))

    @cached_property
    def method(self) -> Method:
        """The method inside."""
        return INNER[self.inner]()

    @property
    def deployable(self) -> bool:  # type: ignore[override]
        """Whether the method inside needs nothing that only a simulation knows."""
        return self.method.deployable

    def steps_on(self, task: Task) -> StepSize:
        """Return (γ, η): those of the method inside where there are none of its own."""
        own = self.step_sizes.get(task.name) if self.inner == AverageParticipating.name else None
        return own or self.method.steps_on(task)

    def strategy(self, **options: Any) -> Amplified:
        """Return the server's half around that of the method inside."""
        strategy = self.method.strategy(**options)
        assert isinstance(strategy, SumStrategy)
        return Amplified(strategy, period=self.period, factor=self.factor)

    def weighting(self, probability: float | None = None) -> Weighting:
        """Return the weighting of the method inside."""
        return self.method.weighting(probability)

    def learned_weighting(self) -> Weighting | None:
        """Return the weighting of the method inside if it learns."""
        return self.method.learned_weighting()
