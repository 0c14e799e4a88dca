"""Settings for all tests, and a look at the end for what they have left running."""

import os
import time
import uuid
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.fuzzing import examples
from tests.processes import marked_processes

# How long one example takes says more about the machine's load than about the code.
settings.register_profile("any-load", deadline=None, max_examples=examples())
settings.load_profile("any-load")

MARK = "FEDAU_TEST_SESSION"
SECONDS_TO_END = 20.0


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fail if a process outlives the tests that started it, directly or not."""
    mark = os.environ[MARK] = f"session-{uuid.uuid4().hex}"
    yield
    deadline = time.monotonic() + SECONDS_TO_END
    while (left := left_behind(mark)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == []


def left_behind(mark: str) -> list[str]:
    """Return what runs beside the helpers of multiprocessing, which end with this process."""
    return [line for line in marked_processes(mark) if "from multiprocessing" not in line]
