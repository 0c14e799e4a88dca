"""torchvision, imported so that it works beside a torch build its compiled operators do not fit.

Where those operators cannot be loaded, torchvision still registers shape functions for two of them
and fails on import because nobody declared them. We use neither: declared, they do no harm.
"""

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import torch


def _declare_missing_operators() -> torch.library.Library | None:
    """Declare torchvision's two operators unless its own library brings them."""
    found = find_spec("torchvision")
    if found is None or found.origin is None:
        return None
    # The library is tried first: an operator declared before it loads would be declared twice.
    for path in Path(found.origin).parent.glob("_C*"):
        with suppress(OSError):
            torch.ops.load_library(path)  # type: ignore[no-untyped-call]
    library = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            schema = f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            library.define(schema)  # type: ignore[no-untyped-call]
    return library


_LIBRARY = _declare_missing_operators()  # a declaration lives as long as its library object

from torchvision import datasets  # type: ignore[import-untyped]  # noqa: E402
from torchvision.transforms.v2 import functional as transforms  # type: ignore[import-untyped]  # noqa: E402

__all__ = ["datasets", "transforms"]
