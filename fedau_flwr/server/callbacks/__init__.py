"""What a `RoundLoop` can do beside training, one small module each."""

from ..callback import Callback
from .checkpoints import Checkpoints
from .divergence import StopOnDivergence
from .evaluation import Evaluate, EvaluateOnNodes
from .json_lines import JsonLines
from .nodes import WaitForNodes
from .progress import Progress
from .prometheus import PrometheusTextfile
from .request import StopOnRequest
from .tensorboard import TensorBoard

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
