"""What a `RoundLoop` can do beside training."""

from ..loop import Callback
from .checkpoints import Checkpoints
from .conditions import StopOnDivergence, StopOnRequest, WaitForNodes
from .evaluation import Evaluate, EvaluateOnNodes
from .progress import Progress
from .trackers import MLflow, TensorBoard, WeightsAndBiases
from .writers import JsonLines, PrometheusTextfile

__all__ = [
    "Callback",
    "Checkpoints",
    "Evaluate",
    "EvaluateOnNodes",
    "JsonLines",
    "MLflow",
    "Progress",
    "PrometheusTextfile",
    "StopOnDivergence",
    "StopOnRequest",
    "TensorBoard",
    "WaitForNodes",
    "WeightsAndBiases",
]
