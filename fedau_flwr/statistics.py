r"""Statistics of normalisation layers, which are measured and not learned.

A weight above 1 overshoots: it takes a running variance, which moves from :math:`v` to :math:`v'`
at a client, to :math:`v + \omega (v' - v)`, and that can be negative. So these arrays travel in
their place within the first part of a contribution, but times 1 instead of :math:`\omega` and
untouched by the method, and the server takes their mean over the participants,
:math:`x \leftarrow x + \Sigma \Delta / |S_t|`, whatever its method and step size are. A variance
that was not negative does not get so by rounding or noise either.

They are found by name (PyTorch, Keras, Flax), and among arrays without names by PyTorch's order:
two vectors of one length, of which the second is not negative, before an integer that counts
batches. The train message tells clients their positions.
"""

import re
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

import numpy as np

from .arrays import Arrays, is_averaged, moved
from .wire.parts import Layout, Parts

Step = Callable[[Arrays, Parts | None, int], Arrays]

_NAMES = re.compile(
    r"(?:^|[./_])(?:running|moving)_(?:mean|var|variance)(?::0)?$"
    r"|(?:^|[./])batch_stats[./](?:.*[./])?(?:mean|var)$"
)


class Statistics:
    """Which arrays of a model are averaged over the participants with unit weights.

    Beside those of normalisation layers these are `unweighted`: names, or patterns as ``"ema.*"``.
    """

    def __init__(self, unweighted: Iterable[str] = ()) -> None:
        if isinstance(unweighted, str):
            raise ValueError(f"unweighted is {unweighted!r}, but must be a tuple of array names.")
        self.unweighted = tuple(map(str, unweighted))

    def positions(self, model: Arrays) -> tuple[int, ...]:
        """Return the positions of these arrays in `model`."""
        averaged = [name for name, value in model.items() if is_averaged(value.dtype)]
        for pattern in self.unweighted:
            if not any(fnmatchcase(name, pattern) for name in averaged):
                raise ValueError(
                    f"unweighted has {pattern!r}, but must name floating-point arrays of the "
                    f"model: {', '.join(averaged[:10])}{', …' if averaged[10:] else ''}."
                )
        own = {n for n in averaged if any(fnmatchcase(n, pattern) for pattern in self.unweighted)}
        found = own | {name for name in averaged if _NAMES.search(name)}
        found |= {name for pair in _unnamed(model) for name in pair}
        return tuple(number for number, name in enumerate(model) if name in found)


def _unnamed(model: Arrays) -> list[tuple[str, str]]:
    """Return mean and variance of PyTorch's layers among arrays that have no names."""
    found = []
    names = list(model)
    for mean, var, count in zip(names, names[1:], names[2:], strict=False):
        first, second, counter = model[mean], model[var], model[count]
        counts = counter.dtype.kind in "iu" and counter.shape == ()
        vectors = first.ndim == 1 and first.shape == second.shape
        averaged = is_averaged(first.dtype) and is_averaged(second.dtype)
        if mean.isdecimal() and counts and vectors and averaged and (second >= 0).all():
            found.append((mean, var))
    return found


def named(model: Arrays, positions: Iterable[int]) -> list[str]:
    """Return the names of the arrays at `positions`."""
    names = list(model)
    return [names[position] for position in positions]


def without(parts: Parts, names: Iterable[str]) -> Parts:
    """Return parts without the arrays of these names."""
    left_out = {*names}
    return {
        part: {name: value for name, value in arrays.items() if name not in left_out}
        for part, arrays in parts.items()
    }


def stepped(step: Step, layout: Layout, sums: Parts | None, participants: int) -> Arrays:
    """Let a method make its step, and take the mean of the statistics, which it does not see."""
    model, names = layout.model, layout.unweighted
    if not names:
        return step(model, sums, participants)
    learned = {name: value for name, value in model.items() if name not in names}
    after = step(learned, sums and without(sums, names), participants)
    if sums and participants:
        measured = {name: model[name] for name in names}
        after |= moved(measured, sums[layout.parts[0]], 1 / participants)
        for name in {*_variances(model)} & {*names}:
            after[name] = np.maximum(after[name], 0).astype(after[name].dtype)
    return {**model, **after}


def _variances(model: Arrays) -> list[str]:
    named = [name for name in model if _NAMES.search(name) and "var" in name.rpartition("_")[2]]
    return [n for n in [*named, *(var for _, var in _unnamed(model))] if (model[n] >= 0).all()]
