import subprocess
import sys

import pytest

from fedau_flwr import _flower


@pytest.mark.parametrize("name", _flower._HOMES)
def test_every_name_is_where_it_is_said_to_be(name):
    assert getattr(_flower, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _flower.nothing  # noqa: B018


def test_a_flower_that_moved_things_does_not_break_the_import():
    """Whatever is not public may be gone: it is missed when it is used."""
    script = (
        "import sys, flwr.app, flwr.serverapp, flwr.clientapp, flwr.server, flwr.client\n"
        "import fedau_flwr._flower as f\n"
        "f._HOMES = {name: home + '_gone' for name, home in f._HOMES.items()}\n"
        "import fedau_flwr\n"
        "from fedau_flwr.server.deadlines import DeadlineGrid, with_deadline\n"
        "class Grid: pass\n"
        "assert isinstance(with_deadline(Grid()), DeadlineGrid)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
