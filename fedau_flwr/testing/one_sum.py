"""Every method in its one-sum form, written literally, on quadratics `½‖x − a_n‖²`.

A client sends its parts, the server adds them up and makes a step; who sent what is nowhere needed
on the server's side. A case has `targets` (the `a_n`), `initial`, `participation` (rounds of
clients), local step size `lr` and number of local `steps`, server step size `server_lr`, the
method's `parameters`, and `delivered`: whom the message after each round reached.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .algorithm2 import frequency_weights, weights

Vector = NDArray[np.float64]
Case = Mapping[str, Any]


class _Quadratics:
    """What all methods have in common."""

    def __init__(self, case: Case) -> None:
        self.targets = np.array(case["targets"], np.float64)
        self.clients = len(self.targets)
        self.x = np.array(case["initial"], np.float64)
        self.eta = float(case["server_lr"])
        self.path = [[bool(int(bit)) for bit in here] for here in case["participation"]]
        self.reached = [[bool(int(bit)) for bit in here] for here in case["delivered"]]
        self.parameters: Mapping[str, Any] = case["parameters"]
        self.models: list[Vector] = []
        self._lr, self._steps = float(case["lr"]), int(case["steps"])

    def update(self, client: int, start: Vector) -> Vector:
        """Return `Δ`, the change that local training makes."""
        y = start
        for _ in range(self._steps):
            y = y - self._lr * (y - self.targets[client])
        return y - start

    def rounds(self) -> Any:
        """Yield every round with its participants, and keep the model that it ends with."""
        for t, here in enumerate(self.path):
            yield t, [n for n in range(self.clients) if here[n]]
            self.models.append(self.x)

    def column(self, client: int) -> list[bool]:
        """Return when a client took part."""
        return [here[client] for here in self.path]

    def zero(self) -> Vector:
        """Return a sum over nobody."""
        return np.zeros_like(self.x)


def _weighted(
    case: Case, of: Callable[[_Quadratics, int], Sequence[float]], divide: bool
) -> list[Vector]:
    q = _Quadratics(case)
    w = [of(q, n) for n in range(q.clients)]
    for t, here in q.rounds():
        total = sum((w[n][t] * q.update(n, q.x) for n in here), q.zero())
        if here:
            q.x = q.x + q.eta * total / (len(here) if divide else q.clients)
    return q.models


def fedau(case: Case) -> list[Vector]:
    """Return the models of FedAU: `x += η Σ ω Δ / N`."""
    cutoff = case["parameters"]["cutoff"]
    return _weighted(case, lambda q, n: weights(q.column(n), cutoff), divide=False)


def frequency(case: Case) -> list[Vector]:
    """Return the models with `ω = t / m`."""
    return _weighted(case, lambda q, n: frequency_weights(q.column(n)), divide=False)


def average_participating(case: Case) -> list[Vector]:
    """Return the models of `x += η Σ Δ / |A|`."""
    return _weighted(case, lambda q, n: [1.0] * len(q.path), divide=True)


def average_all(case: Case) -> list[Vector]:
    """Return the models of `x += η Σ Δ / N`."""
    return _weighted(case, lambda q, n: [1.0] * len(q.path), divide=False)


def known_statistics(case: Case) -> list[Vector]:
    """Return the models of `x += η Σ (Δ / p) / N`."""
    p = case["parameters"]["p"]
    return _weighted(case, lambda q, n: [1.0 / p[n]] * len(q.path), divide=False)


def amplified(case: Case) -> list[Vector]:
    """Return the models of averaging participants, with every period's way amplified."""
    q = _Quadratics(case)
    anchor, period, factor = q.x, q.parameters["period"], q.parameters["factor"]
    for t, here in q.rounds():
        if here:
            q.x = q.x + q.eta * sum((q.update(n, q.x) for n in here), q.zero()) / len(here)
        if (t + 1) % period == 0:
            q.x = anchor = anchor + factor * (q.x - anchor)
    return q.models


def mifa(case: Case) -> list[Vector]:
    """Return the models of MIFA: `G += Σ c / N`, `x += η G`, also when nobody came."""
    q = _Quadratics(case)
    y, g = np.zeros_like(q.targets), q.zero()
    for _, here in q.rounds():
        c = {n: q.update(n, q.x) - y[n] for n in here}
        g = g + sum(c.values(), q.zero()) / q.clients
        q.x = q.x + q.eta * g
        for n in here:
            y[n] = y[n] + c[n]
    return q.models


def fedvarp(case: Case) -> list[Vector]:
    """Return the models of FedVARP: `x += η (Σ c / |A| + ȳ)`, then `ȳ += Σ c / N`."""
    q = _Quadratics(case)
    y, mean = np.zeros_like(q.targets), q.zero()
    for _, here in q.rounds():
        c = {n: q.update(n, q.x) - y[n] for n in here}
        total = sum(c.values(), q.zero())
        if here:
            q.x = q.x + q.eta * (total / len(here) + mean)
        mean = mean + total / q.clients
        for n in here:
            y[n] = y[n] + c[n]
    return q.models


def fedstale(case: Case) -> list[Vector]:
    """Return the models of FedStale: `x += η (βH + Σ₁ / N)`, then `H += Σ₂ / N`."""
    q = _Quadratics(case)
    h, mean, beta = np.zeros_like(q.targets), q.zero(), q.parameters["beta"]
    w = [weights(q.column(n), q.parameters["cutoff"]) for n in range(q.clients)]
    for t, here in q.rounds():
        delta = {n: q.update(n, q.x) for n in here}
        first = sum((w[n][t] * (delta[n] - beta * h[n]) for n in here), q.zero())
        second = sum((delta[n] - h[n] for n in here), q.zero())
        q.x = q.x + q.eta * (beta * mean + first / q.clients)
        mean = mean + second / q.clients
        for n in here:
            h[n] = delta[n]
    return q.models


def fedawe(case: Case) -> list[Vector]:
    """Return the models of FedAWE: `x += (Σ (x_i − x) + η Σ (t − τ_i) Δ_i) / |A|`."""
    q = _Quadratics(case)
    own: dict[int, Vector] = {}
    last = [-1] * q.clients
    for t, here in q.rounds():
        start = {n: own.get(n, q.x) for n in here}
        first = sum((start[n] - q.x for n in here), q.zero())
        second = sum(((t - last[n]) * q.update(n, start[n]) for n in here), q.zero())
        if here:
            q.x = q.x + (first + q.eta * second) / len(here)
        for n in here:
            last[n] = t
            own.pop(n, None)
            if q.reached[t][n]:
                own[n] = q.x
    return q.models


def mimic(case: Case) -> list[Vector]:
    """Return the models of MimiC: `c = Δ − Δ_last + D`, `x += η Σ c / |A|`."""
    q = _Quadratics(case)
    correction: dict[int, Vector] = {}
    for t, here in q.rounds():
        delta = {n: q.update(n, q.x) for n in here}
        c = [delta[n] + correction.get(n, q.zero()) for n in here]
        before = q.x
        if here:
            q.x = q.x + q.eta * sum(c, q.zero()) / len(here)
        for n in here:
            correction.pop(n, None)
            if q.reached[t][n]:
                correction[n] = (q.x - before) - delta[n]
    return q.models


METHODS: Mapping[str, Callable[[Case], list[Vector]]] = {
    "fedau": fedau,
    "frequency": frequency,
    "average-participating": average_participating,
    "average-all": average_all,
    "known-statistics": known_statistics,
    "amplified": amplified,
    "mifa": mifa,
    "fedvarp": fedvarp,
    "fedstale": fedstale,
    "fedawe": fedawe,
    "mimic": mimic,
}
