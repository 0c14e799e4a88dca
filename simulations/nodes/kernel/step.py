"""The native step as numpy sees it: arrays in, arrays out, everything checked before C++ runs."""

import ctypes
import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulations.nodes.kernel.build import KernelUnavailable, build
from simulations.tasks.images.task import IMAGE_SHAPE

_FLATTENED = 2048
_CONVOLUTIONS = {
    "conv1.weight": (32, 3, 3, 3), "conv1.bias": (32,),
    "conv2.weight": (32, 32, 3, 3), "conv2.bias": (32,),
}  # fmt: skip
_EVALUATED = 16  # images at a time

Arrays = Mapping[str, NDArray[Any]]
Floats = NDArray[np.float32]
Labels = NDArray[np.int64]
Masks = Floats | None


class NativeStep:
    """Local training and evaluation of one of the paper's networks on one core.

    ``widths`` are the outputs of the dense layers; the compiled kernel is kept in ``directory``, or
    in the user's cache. Raises `KernelUnavailable` if it cannot be built or loaded, or is not made
    for these widths.
    """

    def __init__(self, widths: Sequence[int], *, directory: Path | None = None) -> None:
        sizes = (_FLATTENED, *widths)
        if not 1 <= len(widths) <= 8 or min(widths) < 1 or any(width % 16 for width in sizes[:-1]):
            rule = "1 to 8, multiples of 16 except the last"
            raise KernelUnavailable(f"widths are {list(widths)}, but must be {rule}")
        self.widths, self.inputs = tuple(widths), sizes[:-1]
        self.shapes: dict[str, tuple[int, ...]] = dict(_CONVOLUTIONS)
        for number, (inputs, outputs) in enumerate(pairwise(sizes)):
            self.shapes[f"dense.{number}.weight"] = (outputs, inputs)
            self.shapes[f"dense.{number}.bias"] = (outputs,)
        path = build(directory)
        try:
            self._library = ctypes.CDLL(str(path))
            self._library.fedau_bytes.restype = ctypes.c_size_t
            self._library.fedau_train.restype = self._library.fedau_evaluate.restype = None
        except (OSError, AttributeError) as error:
            raise KernelUnavailable(f"{path} cannot be loaded: {error}") from error
        self._layers = (ctypes.c_int(len(widths)), (ctypes.c_int * len(sizes))(*sizes))
        self._memory = np.empty(0, np.uint8)
        self._lock = threading.Lock()  # one call at a time uses the memory

    def train(
        self, parameters: Arrays, images: Floats, labels: Labels, lr: float, masks: Masks = None
    ) -> tuple[dict[str, Floats], Floats]:
        """Run one step of SGD per batch and return the new parameters and each step's mean loss.

        ``parameters`` are the arrays of the torch module by name, which are not changed; ``images``
        are normalised, ``[steps, batch, 32, 32, 3]``, and ``labels`` ``[steps, batch]``. ``masks``,
        ``[steps, batch * (2048 + hidden widths)]``, are dropout's factors: what the inputs of each
        dense layer are multiplied by, ``[batch, inputs]``, layer after layer.
        """
        steps, batch = self._check(parameters, images, labels, 2)
        if masks is not None:
            _check_array("masks", masks, np.float32, (steps, batch * sum(self.inputs)))
        trained = {name: np.array(parameters[name], order="C") for name in self.shapes}
        losses = np.empty(steps, np.float32)
        with self._lock:
            self._library.fedau_train(
                self._pointers(trained), *self._layers, _address(images), _address(labels),
                None if masks is None else _address(masks), ctypes.c_int(steps),
                ctypes.c_int(batch), ctypes.c_float(lr), self._workspace(batch), _address(losses),
            )  # fmt: skip
        return trained, losses

    def evaluate(
        self, parameters: Arrays, images: Floats, labels: Labels
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return each image's loss, and whether its class was found; images ``[n, 32, 32, 3]``."""
        (count,) = self._check(parameters, images, labels, 1)
        losses, correct = np.empty(count, np.float32), np.empty(count, np.bool_)
        with self._lock:
            self._library.fedau_evaluate(
                self._pointers(parameters), *self._layers, _address(images), _address(labels),
                ctypes.c_int64(count), self._workspace(_EVALUATED), _address(losses),
                _address(correct),
            )  # fmt: skip
        return losses, correct

    def _check(
        self, parameters: Arrays, images: Floats, labels: Labels, dimensions: int
    ) -> tuple[int, ...]:
        """Return the shape of the labels, if all arrays are as they must be."""
        if set(parameters) != set(self.shapes):
            given = ", ".join(map(str, parameters)) or "none"
            raise ValueError(f"parameters are {given}, but must be {', '.join(self.shapes)}.")
        for name, expected in self.shapes.items():
            _check_array(name, parameters[name], np.float32, expected)
        shape: tuple[int, ...] = np.shape(labels)
        if len(shape) != dimensions or 0 in shape:
            rule = f"have {dimensions} dimensions > 0"
            raise ValueError(f"labels are {list(shape)}, but must {rule}.")
        _check_array("labels", labels, np.int64, shape)
        lowest, highest, last = labels.min(), labels.max(), self.widths[-1] - 1
        if lowest < 0 or highest > last:
            raise ValueError(f"labels are {lowest} to {highest}, but must be 0 to {last}.")
        _check_array("images", images, np.float32, (*shape, *IMAGE_SHAPE))
        return shape

    def _pointers(self, parameters: Arrays) -> ctypes.Array[ctypes.c_void_p]:
        return (ctypes.c_void_p * len(self.shapes))(*(_address(parameters[n]) for n in self.shapes))

    def _workspace(self, batch: int) -> ctypes.c_void_p:
        """Return memory for a batch, aligned to a cache line."""
        size = self._library.fedau_bytes(ctypes.c_int(batch), *self._layers) + 64
        if len(self._memory) < size:
            self._memory = np.empty(size, np.uint8)
        return ctypes.c_void_p(-(-self._memory.ctypes.data // 64) * 64)


def _address(value: NDArray[Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(value.ctypes.data)


def _check_array(name: str, value: Any, dtype: type[np.generic], shape: tuple[int, ...]) -> None:
    """Refuse anything but a C-contiguous array of this type and shape."""
    given = type(value).__name__
    if isinstance(value, np.ndarray):
        straight = value.flags.c_contiguous and value.flags.aligned
        if straight and (value.dtype, value.shape) == (np.dtype(dtype), shape):
            return
        given = f"{'' if straight else 'strided or unaligned '}{value.dtype} {list(value.shape)}"
    wanted = f"C-contiguous {np.dtype(dtype)} {list(shape)}"
    raise ValueError(f"{name} is {given}, but must be {wanted}.")
