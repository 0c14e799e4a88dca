"""The machine that a benchmark ran on."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any


def describe_machine() -> dict[str, Any]:
    """Return processor, cores, memory and the versions of what the numbers depend on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory-gigabytes": round(
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1
        ),
        "system": platform.platform(),
        "load-at-start": [round(value, 2) for value in os.getloadavg()],
        "python": sys.version.split()[0],
        **{name: version(name) for name in ("torch", "flwr", "ray", "numpy")},
    }


def _processor() -> str:
    """Return the name of the processor, for which Python has no portable call."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
