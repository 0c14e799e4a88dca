"""Where the real data is: beside the checkout, or where FEDAU_SHARED_DATA says."""

import os
from pathlib import Path

import pytest


def shared_data() -> Path:
    """Return the folder with the real data; say that the test did not run if there is none."""
    beside = Path(__file__).parents[2].parent / "shared" / "data"
    folder = Path(os.environ.get("FEDAU_SHARED_DATA", beside))
    if not (folder / "prepare.py").is_file():
        pytest.skip(f"did not run: there is no real data in {folder}")
    return folder
