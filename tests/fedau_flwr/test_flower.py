import subprocess
import sys
from pathlib import Path

import pytest
from flwr.serverapp.strategy import FedAvg

from fedau_flwr import FedAU, _flower


@pytest.mark.parametrize("name", _flower._HOMES)
def test_every_name_is_where_it_is_said_to_be(name):
    assert getattr(_flower, name) is not None


@pytest.mark.parametrize(
    ("installed", "told"),
    [("1.41.0", False), ("1.42.3", False), ("1.43.0.dev1", True), ("2.0", True)],
)
def test_a_newer_flower_gets_one_line(installed, told, monkeypatch, caplog):
    caplog.set_level("INFO", "flwr")
    monkeypatch.setattr(_flower, "version", {"flwr": installed}.__getitem__)
    _flower.note_version.cache_clear()
    try:
        FedAU(1), FedAU(2)
    finally:
        _flower.note_version.cache_clear()
    line = f"Flower {installed} is newer than what this fedau-flwr was tested with (1.41 to 1.42)."
    assert caplog.messages == [line] * told


def test_the_declared_range_begins_with_the_oldest_that_is_tested():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'"flwr>={_flower.TESTED[0]},<2"' in text


def test_options_that_a_newer_start_has_are_passed_on(monkeypatch):
    """Flower 1.43 knows `should_stop`."""
    seen = {}

    def start(self, grid, initial_arrays, num_rounds, timeout, **options):
        seen.update(options, num_rounds=num_rounds)

    monkeypatch.setattr(FedAvg, "start", start)
    stop = object()
    FedAU(1).start(None, None, num_rounds=4, should_stop=stop)
    assert seen == {"should_stop": stop, "num_rounds": 4}


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
