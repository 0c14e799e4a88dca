"""A method of one's own, both halves: updates that keep going for some rounds, and fade."""

from dataclasses import dataclass

from fedau_flwr import SumStrategy, Transform
from fedau_flwr.arrays import added, moved, scaled
from simulations.methods import Method


@dataclass(frozen=True)
class FadingUpdate(Transform):
    """The client's half: sends `m = Δ + rate · m`, where the last `m` is one that was counted."""

    rate: float

    name = "fading"
    remembers = True

    def contribute(self, update, turn):
        """Return what is sent, given the change that training made."""
        return {"update": added(scaled(turn.memory.get("m", {}), self.rate), update)}

    def remember(self, memory, sent):
        """Return the memory, once the server is known to have counted what was sent."""
        return {"m": sent["update"]}


class FadingMean(SumStrategy):
    """The server's half: `x ← x + η Σ m / N`."""

    def __init__(self, num_clients, *, rate, **options):
        super().__init__(num_clients, **options)
        self.transform = FadingUpdate(rate)

    def step(self, model, sums, participants):
        """Return the next model; where nobody came it stays."""
        if sums is None:
            return model
        return moved(model, sums["update"], self.server_learning_rate / self.num_clients)


@dataclass(frozen=True)
class Fading(Method):
    """The mean over all clients of their updates, past ones included as they fade."""

    rate: float = 0.5

    transforms = (FadingUpdate,)

    def strategy(self, **options):
        """Return the server's half; clients know theirs by `transforms`."""
        return FadingMean(rate=self.rate, **options)
