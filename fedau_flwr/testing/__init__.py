"""What helps to test an app or another implementation."""

from .conformance import Mismatch, check, compare
from .in_process_grid import InProcessGrid
from .vectors import SHIPPED, questions, read

__all__ = ["SHIPPED", "InProcessGrid", "Mismatch", "check", "compare", "questions", "read"]
