"""A small minimiser for smooth functions of a few numbers (BFGS with measured gradients)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def minimise(function: Callable[[Vector], float], start: Vector, *, steps: int = 500) -> Vector:
    """Return a point where `function` is locally least.

    It stops where the slope, or what a step brings, is below the precision of the measurements.
    """
    x = np.asarray(start, np.float64)
    value, slope = function(x), _gradient(function, x)
    inverse_hessian = np.eye(len(x))
    fresh = True
    for _ in range(steps):
        if np.max(np.abs(slope)) < 1e-9:
            break
        direction = -inverse_hessian @ slope
        lower = _descend(function, x, value, direction, float(slope @ direction))
        if lower is None:
            if fresh:
                break
            # Curvature measured far away can mislead: once more straight down.
            inverse_hessian, fresh = np.eye(len(x)), True
            continue
        moved, gain = lower[0], value - lower[1]
        value = lower[1]
        new_slope = _gradient(function, moved)
        inverse_hessian = _updated(inverse_hessian, moved - x, new_slope - slope)
        x, slope, fresh = moved, new_slope, False
        if gain < 1e-12:
            break
    return x


def _gradient(function: Callable[[Vector], float], x: Vector, step: float = 3e-5) -> Vector:
    offsets = step * np.eye(len(x))
    return np.array([function(x + o) - function(x - o) for o in offsets]) / (2 * step)


def _descend(
    function: Callable[[Vector], float], x: Vector, value: float, direction: Vector, slope: float
) -> tuple[Vector, float] | None:
    """Return a point along `direction` that is lower, halving the step; None if there is none."""
    # No parameter moves by more than 2 at once: logarithms of scales and decays bend quickly.
    size = min(1.0, 2.0 / max(float(np.max(np.abs(direction))), 1e-300))
    for _ in range(25):
        moved = x + size * direction
        lower = function(moved)
        if lower < value + 1e-4 * size * slope and lower < value:
            return moved, lower
        size /= 2
    return None


def _updated(inverse_hessian: Vector, step: Vector, change: Vector) -> Vector:
    curvature = float(step @ change)
    if curvature <= 1e-12 * float(np.linalg.norm(step) * np.linalg.norm(change)):
        return inverse_hessian
    left = np.eye(len(step)) - np.outer(step, change) / curvature
    updated: Vector = left @ inverse_hessian @ left.T + np.outer(step, step) / curvature
    return updated
