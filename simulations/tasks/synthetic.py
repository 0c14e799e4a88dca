"""A classification task made from a seed: overlapping classes, so that bias shows in accuracy.

Every class has two smooth prototypes; an image is one of them plus smooth noise that is stronger
than the distance between prototypes. No model separates the classes, so one that saw some of them
more often moves its boundaries in their favour: frequent classes gain, rare ones lose more.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .spec import IMAGE_SHAPE

SEPARATION = 0.45
"""Standard deviation of the prototypes in units of the noise."""

_GRID = 3
_MODES = 2
_CONTRAST = 36.0
_CHUNK = 4096

Floats = NDArray[np.float32]


def _smoothing() -> Floats:
    """Return the matrix from coarse grid values to pixels, [grid·grid·3, 32·32·3], bilinear."""
    size, _, channels = IMAGE_SHAPE
    position = np.clip((np.arange(size) + 0.5) / size * _GRID - 0.5, 0, _GRID - 1)
    line = np.maximum(0, 1 - np.abs(position[:, None] - np.arange(_GRID)))
    return np.kron(np.kron(line, line), np.eye(channels)).T.astype(np.float32)


def chunks(
    *, seed: int, part: str, count: int, num_classes: int
) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    """Yield images ``uint8 [n, 32, 32, 3]`` and labels of one part, ``count`` samples in all.

    The parts ``train`` and ``test`` of a seed share their prototypes and nothing else.
    """
    smoothing = _smoothing()
    task = np.random.default_rng([seed, 0])
    shape = (num_classes, _MODES, len(smoothing))
    prototypes = SEPARATION * task.standard_normal(shape, dtype=np.float32)
    rng = np.random.default_rng([seed, 1 + ("train", "test").index(part)])
    for start in range(0, count, _CHUNK):
        n = min(_CHUNK, count - start)
        labels = rng.integers(num_classes, size=n)
        coarse = rng.standard_normal((n, len(smoothing)), dtype=np.float32)
        coarse += prototypes[labels, rng.integers(_MODES, size=n)]
        pixels = coarse @ smoothing
        pixels *= _CONTRAST
        pixels += 128
        images = np.clip(pixels, 0, 255, out=pixels).astype(np.uint8)
        yield images.reshape(n, *IMAGE_SHAPE), labels
