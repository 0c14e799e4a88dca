import importlib
import sys

import pytest

from fedau_flwr import _moved, server


@pytest.mark.parametrize("old", _moved.MODULES)
def test_old_module_paths_work_and_say_the_new_one(old):
    sys.modules.pop(f"fedau_flwr.{old}", None)
    with pytest.warns(DeprecationWarning, match=f"fedau_flwr.{old} is fedau_flwr"):
        importlib.import_module(f"fedau_flwr.{old}")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_renamed_classes_are_found_under_both_names():
    from fedau_flwr.delivery import PunctualGrid

    from fedau_flwr.server.deadlines import DeadlineGrid

    assert PunctualGrid is DeadlineGrid


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_module_that_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("fedau_flwr.nothing")
    assert not hasattr(server, "nothing")
