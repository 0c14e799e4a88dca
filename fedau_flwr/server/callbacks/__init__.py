"""What a `RoundLoop` can do beside training."""

from ..loop import Callback
from .checkpoints import Checkpoints
from .conditions import StopOnDivergence, StopOnRequest, WaitForNodes
from .evaluation import Evaluate, EvaluateOnNodes
from .progress import Progress
from .writers import JsonLines, PrometheusTextfile, TensorBoard

__all__ = [
    "Callback",
    "Checkpoints",
    "Evaluate",
    "EvaluateOnNodes",
    "JsonLines",
    "Progress",
    "PrometheusTextfile",
    "StopOnDivergence",
    "StopOnRequest",
    "TensorBoard",
    "WaitForNodes",
]
