"""Real SuperLinks and SuperNodes on loopback, whose SuperExecs look for work every 0.2 s."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
APP = Path(__file__).parent / "app"


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    return {"FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2", "PYTHONPATH": str(ROOT)}
