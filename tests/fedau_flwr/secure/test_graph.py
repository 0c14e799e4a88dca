"""How many holders a client draws: the bounds are exact, and hold where all cases can be tried."""

import re
from itertools import combinations
from math import comb, log2
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedau_flwr.secure import Topology
from fedau_flwr.secure.graph import _divided, parts, table

README = Path(__file__).parents[3] / "fedau_flwr" / "secure" / "README.md"


def test_degrees():
    topology = Topology()
    assert [topology.degree(n) for n in (2, 3, 16, 17)] == [1, 2, 15, 16]
    assert [topology.degree(n) for n in (18, 25, 60, 250, 1000)] == [16, 18, 28, 82, 124]


@given(st.integers(2, 200), st.sampled_from([0.5, 0.6, 2 / 3]))
def test_two_thresholds_never_fit_into_one_set_of_holders(holders, fraction):
    needed = Topology(threshold=fraction).shares_needed(holders)
    assert holders < 2 * needed <= 2 * holders


def tail(population, marked, drawn, least):
    """Return the probability in whole numbers, as in a textbook."""
    ways = sum(
        comb(marked, hits) * comb(population - marked, drawn - hits)
        for hits in range(max(least, 0), drawn + 1)
    )
    return ways / comb(population, drawn)


@pytest.mark.parametrize("cohort", [60, 250, 1000])
def test_captured_and_lost_are_exact(cohort):
    topology = Topology()
    degree = topology.degree(cohort)
    needed = topology.shares_needed(degree + 1)
    bounds = topology.bounds(cohort, degree, needed)
    captured = cohort * tail(cohort - 1, cohort // 5, degree, needed)
    lost = cohort * tail(cohort, cohort // 5, degree + 1, degree + 2 - needed)
    for found, exact in ((bounds.captured, captured), (bounds.lost, lost)):
        assert found == pytest.approx(log2(exact) if exact else -np.inf, abs=1e-6)
    assert captured <= 2**-40
    assert lost <= 2**-20


@pytest.mark.parametrize("cohort", [18, 25, 60, 250, 1000, 10_000])
@pytest.mark.parametrize("colluding", [0.2, 0.33])
def test_default_degrees_keep_all_promises(cohort, colluding):
    topology = Topology(colluding=colluding)
    degree = topology.degree(cohort)
    bounds = topology.bounds(cohort, degree, topology.shares_needed(degree + 1))
    assert max(bounds.captured, bounds.divided) <= -40
    assert bounds.lost <= -20 or degree == cohort - 1
    if degree > topology.min_degree and degree < cohort - 1:
        fewer = topology.bounds(cohort, degree - 2, topology.shares_needed(degree - 1))
        assert max(fewer.captured, fewer.divided) > -40 or fewer.lost > -20


def isolated(drawn, honest, colluding, needed, survivors):
    """Say whether dropping some of the honest can leave a minority whose masks are all its own.

    Those in the sum see `needed` of their own holders in it, themselves included. A client has a
    mask for certain with those that it drew.
    """
    for gone in range(len(honest) + 1):
        for dropped in combinations(honest, gone):
            left = set(honest) - set(dropped)
            alive = left | colluding
            if len(alive) < survivors:
                continue
            if any(len(({c} | set(drawn[c])) & alive) < needed for c in left):
                continue
            for client in left:
                reached, seen = {client}, set()
                while reached - seen:
                    now = (reached - seen).pop()
                    seen.add(now)
                    reached |= left & set(drawn[now])
                if 2 * len(reached) <= len(left):
                    return True
    return False


def test_the_bound_on_divided_sums_holds_against_every_choice_of_who_vanishes():
    cohort, degree, needed, colluding = 9, 2, 2, {0}
    rng = np.random.default_rng(1)
    honest = [c for c in range(cohort) if c not in colluding]
    hits, rounds = 0, 150
    for _ in range(rounds):
        drawn = {
            c: rng.choice([p for p in range(cohort) if p != c], degree, replace=False).tolist()
            for c in range(cohort)
        }
        hits += isolated(drawn, honest, colluding, needed, 2 * cohort // 3 + 1)
    assert 0 < hits / rounds <= 2 ** min(_divided(cohort, degree, needed, len(colluding)), 0)


@pytest.mark.parametrize(
    "options",
    [
        {"threshold": 0.4},
        {"threshold": 1.0},
        {"colluding": 0.5},
        {"colluding": 0.67, "threshold": 0.7},
        {"dropping": 0.5},
        {"dropping": 0.34, "threshold": 2 / 3},
        {"min_degree": 3},
    ],
)
def test_settings_that_miss_the_bounds_are_refused_by_name(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))} is "):
        Topology(**options)


def test_parts_of_a_graph():
    assert parts({}) == []
    assert parts({1: {2}, 2: {1}, 3: set()}) == [{1, 2}, {3}]


def test_the_readme_shows_the_probabilities_as_they_are():
    rows = [line for line in table().splitlines() if re.match(r"\| \d", line)]
    assert len(rows) == 14
    text = README.read_text()
    assert [row for row in rows if row not in text] == []
