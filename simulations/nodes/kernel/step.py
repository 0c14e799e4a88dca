"""The native step as numpy sees it: arrays in, arrays out, everything checked before C++ runs."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulations.nodes.kernel.build import KernelUnavailable, build

FLATTENED = 2048
IMAGE = (32, 32, 3)
_BLOCK = 16  # images that evaluation takes at a time
_LIMIT = 2**31 - 1

Floats = NDArray[np.float32]


def load(widths: Sequence[int], *, directory: Path | None = None) -> NativeStep:
    """Return the native step of the network whose dense layers have these outputs.

    Raises
    ------
    KernelUnavailable
        If it cannot be built or loaded, or does not know this network.
    """
    if not widths or any(width < 16 or width % 16 for width in widths[:-1]) or widths[-1] < 1:
        raise KernelUnavailable(
            f"widths of the dense layers are {', '.join(map(str, widths)) or 'none'}, but all "
            "except the last must be multiples of 16"
        )
    path = build(directory)
    try:
        library = ctypes.CDLL(str(path))
        most = library.fedau_max_layers()
    except (OSError, AttributeError) as error:
        raise KernelUnavailable(f"{path} cannot be loaded: {error}") from error
    if len(widths) > most:
        raise KernelUnavailable(f"it has {len(widths)} dense layers, but must have at most {most}")
    return NativeStep(library, tuple(widths))


def _check(name: str, value: Any, dtype: type[np.generic], shape: tuple[int, ...]) -> None:
    """Refuse anything but a C-contiguous array of this type and shape."""
    if not isinstance(value, np.ndarray):
        raise ValueError(f"{name} is a {type(value).__name__}, but must be a numpy array.")
    if value.dtype != np.dtype(dtype):
        raise ValueError(f"{name} is {value.dtype}, but must be {np.dtype(dtype)}.")
    if value.shape != shape:
        raise ValueError(f"{name} is {list(value.shape)}, but must be {list(shape)}.")
    if not (value.flags.c_contiguous and value.flags.aligned):
        raise ValueError(f"{name} is not contiguous, but must be in C order and aligned.")


def _address(value: NDArray[Any] | None) -> ctypes.c_void_p:
    return ctypes.c_void_p(None if value is None else value.ctypes.data)


class NativeStep:
    """Local training and evaluation of one network on one core; see `load`."""

    def __init__(self, library: ctypes.CDLL, widths: tuple[int, ...]) -> None:
        self.widths = widths
        sizes = (FLATTENED, *widths)
        self.shapes: dict[str, tuple[int, ...]] = {
            "conv1.weight": (32, 3, 3, 3),
            "conv1.bias": (32,),
            "conv2.weight": (32, 32, 3, 3),
            "conv2.bias": (32,),
        }
        for number, (inputs, outputs) in enumerate(pairwise(sizes)):
            self.shapes[f"dense.{number}.weight"] = (outputs, inputs)
            self.shapes[f"dense.{number}.bias"] = (outputs,)
        self._layers = (len(widths), (ctypes.c_int * len(sizes))(*sizes))
        self._library = library
        library.fedau_bytes.restype = ctypes.c_size_t
        library.fedau_train.restype = library.fedau_evaluate.restype = None
        self._memory = np.empty(0, np.uint8)
        self._lock = threading.Lock()  # one call at a time uses the memory

    def train(
        self,
        parameters: Mapping[str, NDArray[Any]],
        images: Floats,
        labels: NDArray[np.int64],
        lr: float,
        masks: Floats | None = None,
    ) -> tuple[dict[str, Floats], Floats]:
        """Run one step of SGD per batch and return the new parameters and each step's mean loss.

        Parameters
        ----------
        parameters : Mapping[str, ndarray]
            The arrays of the torch module by name; they are not changed.
        images : ndarray
            Normalised images ``[steps, batch, 32, 32, 3]``.
        labels : ndarray
            Classes ``[steps, batch]``.
        lr : float
            Step size.
        masks : ndarray, optional
            Dropout's factors ``[steps, batch * (2048 + widths of the hidden layers)]``: what the
            inputs of each dense layer are multiplied by, ``[batch, inputs]`` layer after layer.
        """
        self._check_parameters(parameters)
        steps, batch = self._check_labels(labels, 2)
        _check("images", images, np.float32, (steps, batch, *IMAGE))
        inputs = sum((FLATTENED, *self.widths[:-1]))
        if masks is not None:
            _check("masks", masks, np.float32, (steps, batch * inputs))
        trained = {name: np.array(parameters[name], order="C") for name in self.shapes}
        losses = np.empty(steps, np.float32)
        with self._lock:
            self._library.fedau_train(
                self._pointers(trained),
                *self._layers,
                _address(images),
                _address(labels),
                _address(masks),
                ctypes.c_int(steps),
                ctypes.c_int(batch),
                ctypes.c_float(lr),
                self._workspace(batch),
                _address(losses),
            )
        return trained, losses

    def evaluate(
        self, parameters: Mapping[str, NDArray[Any]], images: Floats, labels: NDArray[np.int64]
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return each image's loss, and whether its class was found; images ``[n, 32, 32, 3]``."""
        self._check_parameters(parameters)
        (count,) = self._check_labels(labels, 1)
        _check("images", images, np.float32, (count, *IMAGE))
        losses, correct = np.empty(count, np.float32), np.empty(count, np.bool_)
        with self._lock:
            self._library.fedau_evaluate(
                self._pointers(parameters),
                *self._layers,
                _address(images),
                _address(labels),
                ctypes.c_int(count),
                self._workspace(_BLOCK),
                _address(losses),
                _address(correct),
            )
        return losses, correct

    def _check_parameters(self, parameters: Mapping[str, NDArray[Any]]) -> None:
        if set(parameters) != set(self.shapes):
            raise ValueError(
                f"parameters are {', '.join(map(str, parameters)) or 'none'}, but must be "
                f"{', '.join(self.shapes)}."
            )
        for name, shape in self.shapes.items():
            _check(name, parameters[name], np.float32, shape)

    def _check_labels(self, labels: NDArray[np.int64], dimensions: int) -> tuple[int, ...]:
        """Return the shape of the labels after checking them."""
        shape = np.shape(labels)
        if len(shape) != dimensions or 0 in shape:
            raise ValueError(
                f"labels are {list(shape)}, but must have {dimensions} dimensions, none of them 0."
            )
        _check("labels", labels, np.int64, shape)
        if labels.min() < 0 or labels.max() >= self.widths[-1]:
            raise ValueError(
                f"labels are {labels.min()} to {labels.max()}, but must be 0 to "
                f"{self.widths[-1] - 1}."
            )
        if shape[-1] * (max(FLATTENED, *self.widths) + 16) > _LIMIT:
            raise ValueError(f"batch is {shape[-1]}, but must be smaller.")
        return shape

    def _pointers(self, parameters: Mapping[str, NDArray[Any]]) -> Any:
        addresses = [parameters[name].ctypes.data for name in self.shapes]
        return (ctypes.c_void_p * len(addresses))(*addresses)

    def _workspace(self, batch: int) -> ctypes.c_void_p:
        """Return memory for a batch, aligned to a cache line."""
        size = self._library.fedau_bytes(ctypes.c_int(batch), *self._layers) + 64
        if len(self._memory) < size:
            self._memory = np.empty(size, np.uint8)
        return ctypes.c_void_p(-(-self._memory.ctypes.data // 64) * 64)
