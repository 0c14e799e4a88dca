"""How many examples hypothesis tries: those that a test names, times FEDAU_FUZZ_FACTOR."""

import os

FACTOR = int(os.environ.get("FEDAU_FUZZ_FACTOR", "1"))


def examples(count: int = 100) -> int:
    return count * FACTOR
