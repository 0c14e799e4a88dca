"""Real SuperLinks and SuperNodes on loopback, with Flower's own intervals between looks for work.

Looking more often would be quicker, if each look did not cost ten milliseconds on either side.

A module's tests look at one story, told by its function ``tell``. Stories mostly wait, for
deadlines and for Flower, so some of them are told at the same time.
"""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
APP = Path(__file__).parent / "app"
AT_ONCE = 2


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="session", autouse=True)
def stories(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    environment: dict[str, str],
) -> Iterator[dict[ModuleType, Future[Any]]]:
    """Start to tell all stories that the session's tests look at, the longest first.

    With the first test of this folder, so that those without a story run in the meantime.
    """
    modules = {item.module for item in request.session.items if isinstance(item, pytest.Function)}
    tellers = [module for module in modules if hasattr(module, "tell")]
    tellers.sort(key=lambda module: -module.SECONDS)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            module: pool.submit(
                module.tell, tmp_path_factory.mktemp(module.__name__.split("_")[-1]), environment
            )
            for module in tellers
        }
        pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def story(request: pytest.FixtureRequest, stories: dict[ModuleType, Future[Any]]) -> Any:
    return stories[request.module].result()
