"""Real SuperLinks and SuperNodes on loopback, with Flower's own intervals between looks for work.

Looking more often would be quicker, if each look did not cost ten milliseconds on either side.

A module's tests look at one story, told by its function ``tell``. Stories mostly wait, for
deadlines and for Flower, so two of them are told at the same time, beside all other tests; those
that look at them come last.
"""

import tempfile
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
APP = Path(__file__).parent / "app"
AT_ONCE = 2
ENVIRONMENT = {"PYTHONPATH": str(ROOT)}
STORIES = pytest.StashKey[dict[ModuleType, Future[Any]]]()


def teller(item: pytest.Item) -> ModuleType | None:
    """Return the module that tells the story which a test looks at, if it does."""
    module = item.module if isinstance(item, pytest.Function) else None
    return module if hasattr(module, "tell") else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of stories at the end, those first whose story begins first."""
    items.sort(key=lambda item: -module.SECONDS if (module := teller(item)) else -float("inf"))


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Begin with the first test to tell all stories that tests look at, the longest first."""
    if session.config.option.collectonly:
        return (yield)
    tellers = dict.fromkeys(module for item in session.items if (module := teller(item)))
    with (
        tempfile.TemporaryDirectory(prefix="fedau-stories-") as directory,
        ThreadPoolExecutor(AT_ONCE) as pool,
    ):
        places = {module: Path(directory) / module.__name__.split("_")[-1] for module in tellers}
        for place in places.values():
            place.mkdir()
        session.stash[STORIES] = {
            module: pool.submit(module.tell, place, ENVIRONMENT) for module, place in places.items()
        }
        try:
            return (yield)
        finally:
            pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    return ENVIRONMENT


@pytest.fixture(scope="module")
def story(request: pytest.FixtureRequest) -> Any:
    return request.session.stash[STORIES][request.module].result()
