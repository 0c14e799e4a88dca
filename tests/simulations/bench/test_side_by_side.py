"""Ratios of rounds that were measured in turns."""

import numpy as np
import pytest

from simulations.bench.side_by_side import Sides


@pytest.fixture
def sides():
    """Return a side that is always 2 and one that is always 3 times slower than the reference."""
    sides = Sides()
    rng = np.random.default_rng(1)
    for factor, side in ((2.0, "two"), (3.0, "three")):
        for _ in range(3):
            reference = rng.uniform(0.5, 1.5, 4)
            sides.add(side, factor * reference, reference)
    return sides


def test_a_machine_that_is_slow_for_a_while_does_not_change_ratios(sides):
    assert sides.ratio("two") == pytest.approx(2)
    assert sides.ratio("three") == pytest.approx(3)
    assert sides.ratio("three", "two") == pytest.approx(1.5)


def test_a_disturbed_round_is_outvoted_by_other_repetitions_and_rounds():
    sides = Sides()
    for seconds in ([2.0, 9.0, 2.0], [2.0, 2.0, 9.0], [9.0, 2.0, 2.0]):
        sides.add("two", np.array(seconds), np.ones(3))
    assert sides.ratio("two") == 2.0


def test_medians_are_in_seconds():
    sides = Sides()
    sides.add("a", np.array([1.0, 2.0, 6.0]), np.array([1.0, 1.0, 4.0]))
    sides.add("b", np.array([5.0, 5.0, 5.0]), np.array([2.0, 2.0, 2.0]))
    assert (sides.median("a"), sides.median("b")) == (2.0, 5.0)
    assert (sides.reference("a"), sides.reference("b"), sides.reference()) == (1.0, 2.0, 2.0)
    assert sides.names == ["a", "b"]
