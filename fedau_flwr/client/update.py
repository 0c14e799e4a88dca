"""What training has made of a model: the update, its statistics apart, and only what is finite."""

import numpy as np

from ..arrays import Arrays, is_averaged, is_finite, wire_dtype
from ..statistics import named
from ..wire.parts import Parts
from ..wire.requests import UNWEIGHTED, Refusal, Request


class Disposable(Arrays):
    """A trained model that nobody needs any more, so that its update may take its place."""


@np.errstate(invalid="ignore", over="ignore")
def local_update(before: Arrays, after: Arrays) -> Arrays:
    """Return `Δ = y − x` of every averaged array; other names or shapes than before are refused."""
    if odd := sorted(before.keys() ^ after.keys()):
        raise Refusal(
            f"The reply's arrays differ from the model's in {odd}, but must have the same names."
        )
    update, own = {}, isinstance(after, Disposable)
    for name, start in before.items():
        end = after[name]
        if end.shape != start.shape and end.dtype == np.uint8 == start.dtype:
            raise Refusal(
                f"Array {name!r} holds bytes, {start.size} in the model and {end.size} in the "
                "reply: a serialised model, such as boosted trees, cannot be summed."
            )
        if end.shape != start.shape:
            raise Refusal(
                f"Array {name!r} has shape {end.shape}, but must keep the model's {start.shape}."
            )
        if is_averaged(start.dtype):
            kind = wire_dtype(start.dtype)
            place = end if own and end.dtype == kind and end.flags.writeable else None
            change = np.subtract(end, start, out=place, dtype=kind, casting="unsafe")
            update[name] = np.asarray(change)  # of single numbers numpy makes no arrays
        elif start.dtype.kind not in "biu":
            raise Refusal(
                f"Array {name!r} has type {start.dtype}, but must be float, integer or bool."
            )
    return update


def unweighted_names(model: Arrays, request: Request) -> list[str]:
    """Return which arrays of the model have weight 1, as the server says."""
    if not request.unweighted:
        return []
    if any(position >= len(model) for position in request.unweighted):
        raise Refusal(
            f"{UNWEIGHTED} is {request.unweighted}, but must be positions of {len(model)} arrays."
        )
    return named(model, request.unweighted)


def measured_change(model: Arrays, trained: Arrays, request: Request) -> Arrays:
    """Return how the statistics changed, which no method sees."""
    names = [name for name in unweighted_names(model, request) if name in trained]
    if not names:
        return {}
    return local_update({n: model[n] for n in names}, {n: trained[n] for n in names})


def check_finite(parts: Parts) -> None:
    """Refuse to send what the server could not add."""
    for arrays in parts.values():
        for name, value in arrays.items():
            if not is_finite(value):
                raise Refusal(f"The update of array {name!r} is not finite, so it is not sent.")
