import functools

import pytest

from simulations.nodes.kernel.build import KernelUnavailable
from simulations.nodes.kernel.step import NativeStep


@pytest.fixture(scope="package")
def native(tmp_path_factory):
    """Return a function that loads the kernel for some widths, compiled for these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        try:
            NativeStep((16, 10))
        except KernelUnavailable as error:
            pytest.skip(f"there is no native step here: {error}")
        yield functools.cache(lambda *widths: NativeStep(widths))
