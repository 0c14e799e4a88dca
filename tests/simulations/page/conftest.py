from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from simulations.page.server import PageServer
from tests.browser import browser, missing


@contextmanager
def serving(root, *, allow_stop=False) -> Iterator[PageServer]:
    """Serve the runs below `root` from a thread of this process."""
    server = PageServer(root, host="127.0.0.1", port=0, allow_stop=allow_stop)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def window(tmp_path_factory):
    """A browser for all tests of a file."""
    if reason := missing():
        pytest.skip(reason)
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found
