"""Real SuperLinks and SuperNodes on loopback, with Flower's own intervals between looks for work.

Looking more often would be quicker, if each look did not cost ten milliseconds on either side.

Each module plays one scenario, in a fixture of its own, and its tests look at what came of it.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
APP = Path(__file__).parent / "app"


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT)}
