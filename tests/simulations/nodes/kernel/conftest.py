import functools

import pytest

from simulations.nodes.kernel.build import KernelUnavailable
from simulations.nodes.kernel.step import load


@pytest.fixture(scope="session")
def native(tmp_path_factory):
    """Return a function that loads the kernel for some widths, compiled for these tests."""
    directory = tmp_path_factory.mktemp("kernel")
    try:
        load((16, 10), directory=directory)
    except KernelUnavailable as error:
        pytest.skip(f"there is no native step here: {error}")
    return functools.cache(lambda *widths: load(widths, directory=directory))
