"""What a process does with memory that it has freed; a simulation's server has no torch."""

import ctypes
import sys


def keep_freed_memory() -> None:
    """Let this process keep memory that was freed.

    Activations and gradients of a few megabytes come and go in every step, models in every round.
    glibc returns blocks of this size to the system and the next step pays for their pages again, a
    fifth of its time.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            trim_threshold, mmap_threshold = -1, -3
            mallopt(mmap_threshold, 1 << 25)  # the most that every glibc accepts
            mallopt(trim_threshold, 1 << 28)
