"""Participation probabilities that go with the clients' data."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import check, check_positive
from .draws import Draws


def participation_probabilities(
    class_shares: ArrayLike,
    *,
    concentration: float,
    mean: float,
    floor: float,
    seed: int | np.random.RandomState,
) -> NDArray[np.float64]:
    """Return ``p_n = C·mean·⟨κ_n, q⟩``, ``q ~ Dir(concentration)``, floored and capped at 1.

    Parameters
    ----------
    class_shares : array [N, C]
        κ: the share of each class in each client's data; rows sum to 1.
    concentration : float
        Above 0; the smaller, the more some classes' owners are there and others are not.
    mean : float
        μ in (0, 1]: the expectation of ``p_n`` before floor and cap.
    floor : float
        Smallest ``p_n``, in [0, 1]. With 0 the smallest positive normal number takes its place,
        since a client that never comes has no participation interval.
    seed : int or RandomState
        Seed of ``q``, or the generator to draw it from.
    """
    shares = _as_shares(class_shares)
    check_positive("concentration", concentration)
    check("mean", mean, 0 < mean <= 1, "in (0, 1]")
    check("floor", floor, 0 <= floor <= 1, "in [0, 1]")
    classes = shares.shape[1]
    name = "participation-probabilities"
    generator = seed if isinstance(seed, np.random.RandomState) else Draws(seed, name).generator()
    q = generator.dirichlet(np.full(classes, concentration))
    lowest = max(floor, float(np.finfo(np.float64).tiny))
    return np.asarray(np.clip(classes * mean * (shares @ q), lowest, 1.0), dtype=np.float64)


def uniform_class_probabilities(class_shares: ArrayLike, *, seed: int) -> NDArray[np.float64]:
    """Return ``p_n = ⟨κ_n, φ⟩`` with a uniform weight per class, as in FedAWE's experiments.

    ``φ`` is uniform on (0, 1) for the first half of the classes and on (0, 0.5) for the others; κ
    is as in `participation_probabilities`.
    """
    shares = _as_shares(class_shares)
    classes = shares.shape[1]
    phi = Draws(seed, "uniform-class-probabilities").uniforms(0, classes)
    phi[classes // 2 :] /= 2
    lowest = float(np.finfo(np.float64).tiny)
    return np.asarray(np.clip(shares @ phi, lowest, 1.0), dtype=np.float64)


def _as_shares(class_shares: ArrayLike) -> NDArray[np.float64]:
    """Return class shares [clients, classes], or raise ValueError."""
    shares = np.asarray(class_shares, dtype=np.float64)
    fits = shares.ndim == 2 and shares.size
    check("the shape of class_shares", shares.shape, fits, "[clients, classes]")
    fine = (shares >= 0).all(axis=1) & (abs(shares.sum(axis=1) - 1) < 1e-6)
    first = int(fine.argmin())  # the first that is not fine, if any
    of_client, rule = f"class_shares of client {first}", "numbers >= 0 that sum to 1"
    check(of_client, shares[first].tolist(), fine[first], rule)
    return shares
