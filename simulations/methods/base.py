"""What a method is to the suite."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from flwr.app import ArrayRecord
from flwr.serverapp.strategy import Strategy

from fedau_flwr import FedAU, SumStrategy, Transform, UnitWeighting
from fedau_flwr.weighting import Weighting
from simulations.registry import Entry
from simulations.tasks.base import StepSize, Task


class Look(NamedTuple):
    """Colour, dashes and hatching in plots, which stay apart in greyscale too."""

    colour: str
    dashes: str | tuple[int, tuple[float, ...]]
    hatch: str


BLUE = Look("#0072B2", "-", "")
SKY = Look("#56B4E9", (0, (5, 2)), "//")
VERMILION = Look("#D55E00", (0, (5, 1.5, 1, 1.5)), "xx")
ORANGE = Look("#E69F00", (0, (1, 1.2)), "..")
GREEN = Look("#009E73", (0, (9, 2)), "\\\\")
PINK = Look("#CC79A7", (0, (4, 1.5, 1, 1.5, 1, 1.5)), "++")
BLACK = Look("#000000", (0, (2, 3)), "--")
BROWN = Look("#8C510A", (0, (7, 1.5, 3, 1.5)), "oo")
PURPLE = Look("#762A83", (0, (3, 1)), "///")
OLIVE = Look("#7F7F00", (0, (6, 1, 1, 1, 1, 1)), "**")
TEAL = Look("#01665E", (0, (12, 2, 2, 2)), "\\\\\\")
INDIGO = Look("#332288", (0, (1, 3)), "OO")
GREY = Look("#888888", (0, (8, 3, 1, 3)), "||")

PALETTE = (BLUE, SKY, VERMILION, ORANGE, GREEN, PINK, BLACK, BROWN, PURPLE, OLIVE, TEAL, INDIGO,
           GREY)  # fmt: skip


def steps(**pairs: tuple[float, float | None]) -> Mapping[str, StepSize]:
    """Return (γ, η) by the name of a task."""
    return {name: StepSize(*pair) for name, pair in pairs.items()}


@dataclass(frozen=True)
class Method(Entry):
    """A way to turn clients' updates into a step: both halves, step sizes, and how it is shown.

    A subclass is a frozen dataclass. It overrides `strategy`, and `weighting` unless all updates
    weigh the same.
    """

    key = "method"

    step_sizes: ClassVar[Mapping[str, StepSize]] = {}
    """By the name of a task."""

    step_size: ClassVar[StepSize] = StepSize(0.1, 1.0)
    """On tasks that neither the method nor the task has a step size for."""

    style: ClassVar[Look | None] = None
    """Its look in plots, whatever its parameters."""

    transforms: ClassVar[tuple[type[Transform], ...]] = ()
    """The clients' half that the strategy names, unless it is one of the plugin's own."""

    participates: ClassVar[bool] = True
    """Whether clients follow the participation protocol, and send what the mod makes of updates."""

    server_step: ClassVar[bool] = True
    """Whether there is a global step size."""

    secure: ClassVar[bool] = True
    """Whether sums can be secure."""

    groups: ClassVar[bool] = False
    """Whether clients of a deployment can share the history of a group."""

    average: ClassVar[bool] = False
    """Whether it is a plain average, which others are to be better than."""

    learns: ClassVar[bool] = False
    """Whether weights are learned from histories."""

    deployable: ClassVar[bool] = True
    """Whether it needs nothing that only a simulation knows."""

    @property
    def look(self) -> Look | None:
        """Its look in plots; None for any that is free."""
        return self.style

    def steps_on(self, task: Task) -> StepSize:
        """Return (γ, η) on a task before any decay."""
        own, tasks = self.step_sizes.get(task.name), task.step_sizes.get(self.name)
        return own or tasks or task.step_size or self.step_size

    @abstractmethod
    def strategy(self, **options: Any) -> Strategy:
        """Return the server's half, with options of `fedau_flwr.SumStrategy`."""

    def weighting(self, probability: float | None = None) -> Weighting:
        """Return how a client turns its history into its weight.

        The probability is that of the client to be there; on a deployment nobody knows it.
        """
        return UnitWeighting()

    def learned_weighting(self) -> Weighting | None:
        """Return the weighting if weights are learned from histories, for plots of their paths."""
        return self.weighting() if self.learns else None

    def evaluated(self, strategy: Strategy, arrays: ArrayRecord) -> ArrayRecord:
        """Return the model that a simulation evaluates: the strategy's, unless it has another."""
        return arrays

    def group_options(self) -> dict[str, Any]:
        """Return what the strategy needs to know for weights of groups."""
        return {}


@dataclass(frozen=True)
class SumMethod(Method):
    """A method whose server's half is one of the plugin's as it comes, by default the plain sum."""

    server: ClassVar[type[SumStrategy]] = FedAU

    def strategy(self, **options: Any) -> SumStrategy:
        """Return the server's half."""
        return self.server(**options)
