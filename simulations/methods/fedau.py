"""FedAU: every update weighs as much as its client is rare, as far as its history tells."""

from dataclasses import dataclass
from typing import Any

from fedau_flwr import FedAUWeighting
from simulations.methods.base import BLUE, SKY, Look, SumMethod, steps
from simulations.registry import parameter


@dataclass(frozen=True)
class FedAUMethod(SumMethod):
    """Weights learned from each client's own participation; 0 stands for no cutoff K."""

    cutoff: int = parameter("0 or more", lambda v: v >= 0, 50)

    name = "fedau"
    place = 1
    groups = True
    learns = True
    step_sizes = steps(svhn=(0.1, 1), cifar10=(0.1, 1), cifar100=(0.0562, 1.78),
                       cinic10=(0.1, 1), synthetic=(0.178, 1))  # fmt: skip

    @property
    def label(self) -> str:
        """The name with the cutoff K."""
        return f"{self.name} K={self.cutoff or '∞'}"

    @property
    def slug(self) -> str:
        """The name with the cutoff, for file names."""
        return f"{self.name}-{self.cutoff or 'infinity'}"

    @property
    def look(self) -> Look | None:
        """The paper's two cutoffs have a look of their own."""
        return {50: BLUE, 0: SKY}.get(self.cutoff)

    @property
    def bound(self) -> float:
        """The largest weight: the cutoff, which may be infinite."""
        return float(self.cutoff or "inf")

    def order(self) -> tuple[Any, ...]:
        """Return what tables are sorted by: large cutoffs first."""
        return self.place, self.name, -self.bound

    def weighting(self, probability: float | None = None) -> FedAUWeighting:
        """Return FedAU's weighting."""
        return FedAUWeighting(self.cutoff or None)

    def group_options(self) -> dict[str, Any]:
        """Return the cutoff, which a group's weights have too."""
        return {"group_cutoff": self.cutoff or None}
