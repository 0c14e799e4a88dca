"""A value that is not allowed gets one sentence: "*name* is *value*, but must be *rule*."."""

from math import inf

import numpy as np


def check(
    name: str, value: object, holds: object, rule: str, error: type[Exception] = ValueError
) -> None:
    """Raise an error about a value unless what the rule says holds."""
    if not holds:
        shown = value.item() if isinstance(value, np.generic) else value
        raise error(f"{name} is {shown!r}, but must be {rule}.")


def is_integer(value: object, least: int) -> bool:
    """Say whether a value is an integer of `least` or more."""
    return isinstance(value, int | np.integer) and type(value) is not bool and int(value) >= least


def is_number(value: object, least: float = -inf, most: float = inf) -> bool:
    """Say whether a value is a finite number from `least` to `most`: a text, say, is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return bool(least <= value <= most and -inf < value < inf)


def check_count(name: str, value: int) -> int:
    """Return a value as int, or raise ValueError if it is not an integer of 1 or more."""
    check(name, value, is_integer(value, 1), "an integer >= 1")
    return int(value)


def check_positive(name: str, value: float) -> None:
    """Raise ValueError unless a value is positive and finite."""
    check(name, value, is_number(value, 0) and value > 0, "positive and finite")


def check_delta(delta: float) -> None:
    """Raise ValueError unless δ is the probability of a guarantee."""
    check("delta", delta, 0 < delta < 1, "strictly between 0 and 1")
