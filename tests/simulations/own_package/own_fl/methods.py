"""A method of one's own: averages whose steps fade over the rounds."""

from dataclasses import dataclass
from typing import Any

from fedau_flwr import FedAU, UnitWeighting
from simulations.methods import Method


class FadingSteps(FedAU):
    """The server's half: the step of round t is `rate ** t` times FedAU's."""

    def __init__(self, *args: Any, rate: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rate = rate

    def step(self, model, total, participants):
        """Move the model by the sum of the updates."""
        moved = super().step(model, total, participants)
        share = self.rate**self.ledger.round
        return {name: value + share * (moved[name] - value) for name, value in model.items()}


@dataclass(frozen=True)
class Fading(Method):
    """The mean over all clients, in steps that fade from round to round."""

    rate: float = 0.9

    def strategy(self, **options: Any) -> FadingSteps:
        """Return the server's half."""
        return FadingSteps(rate=self.rate, **options)

    def weighting(self, probability: float | None = None) -> UnitWeighting:
        """Return the client's half: all updates weigh the same."""
        return UnitWeighting()
