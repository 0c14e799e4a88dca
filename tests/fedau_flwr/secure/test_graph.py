import random
from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedau_flwr.secure import Topology
from fedau_flwr.secure.graph import _divided, parts


@given(st.integers(2, 60), st.integers(0, 5))
def test_neighbours_are_mutual_and_as_many_as_said(cohort, seed):
    topology = Topology()
    ids = [1000 - 7 * i for i in range(cohort)]
    hoods = topology.neighbourhoods(ids, random.Random(seed))
    assert hoods.keys() == set(ids)
    for client, hood in hoods.items():
        assert client in hood
        assert hood == sorted(set(hood))
        assert len(hood) == topology.degree(cohort) + 1
        assert all(client in hoods[peer] for peer in hood)


def test_degrees():
    topology = Topology()
    assert [topology.degree(n) for n in (2, 3, 16, 17)] == [1, 2, 15, 16]
    assert [topology.degree(n) for n in (18, 25, 60, 250, 1000)] == [16, 16, 24, 78, 118]


@given(st.integers(2, 200), st.sampled_from([0.5, 0.6, 2 / 3]))
def test_two_thresholds_never_fit_into_one_neighbourhood(holders, fraction):
    needed = Topology(threshold=fraction).shares_needed(holders)
    assert holders < 2 * needed <= 2 * holders


def test_degree_keeps_both_promises_exactly():
    cohort = 250
    topology = Topology()
    holders = topology.degree(cohort) + 1
    needed = topology.shares_needed(holders)
    colluding = sum(
        comb(50, i) * comb(199, holders - 1 - i) for i in range(needed, holders)
    ) / comb(249, holders - 1)
    starved = sum(
        comb(50, i) * comb(200, holders - i) for i in range(holders - needed + 1, holders + 1)
    ) / comb(250, holders)
    assert cohort * colluding <= 2**-40
    assert cohort * starved <= 2**-20


def test_neighbourhoods_can_be_made_larger():
    hoods = Topology().neighbourhoods(range(60), random.Random(0), least=39)
    assert {len(hood) for hood in hoods.values()} == {39}


@pytest.mark.parametrize(
    "options", [{"threshold": 0.4}, {"threshold": 1.0}, {"colluding": 1.0}, {"min_degree": 3}]
)
def test_impossible_settings_are_refused_by_name(options):
    with pytest.raises(ValueError, match=f"{next(iter(options))}="):
        Topology(**options)


def circulant(places, degree):
    reach = [step for step in range(-(degree // 2), degree // 2 + 1) if step]
    return {place: {(place + step) % places for step in reach} for place in range(places)}


def without(graph, gone):
    return {place: peers - gone for place, peers in graph.items() if place not in gone}


def test_the_bound_on_a_divided_graph_holds_for_every_choice_of_who_is_gone():
    # A third colludes and a sixth vanishes: half of twelve, of which all choices are tried.
    topology = Topology(colluding=1 / 3, dropping=1 / 6)
    for degree in (2, 4):
        graph = circulant(12, degree)
        choices = [set(gone) for gone in combinations(range(12), 6)]
        divided = sum(len(parts(without(graph, gone))) > 1 for gone in choices)
        assert 0 < divided / len(choices) <= _divided(topology, 12, degree)
    # Two runs of four do not fit into six that are gone.
    assert _divided(topology, 12, 8) == 0.0


@pytest.mark.parametrize("cohort", [18, 25, 60, 250, 1000])
def test_the_default_degrees_keep_honest_survivors_together(cohort):
    topology = Topology()
    assert _divided(topology, cohort, topology.degree(cohort)) <= 2**-40


def test_many_colluders_and_dropouts_ask_for_more_neighbours():
    # Here neither captured nor starved neighbourhoods are the problem, but two gaps are.
    topology = Topology(threshold=0.9, colluding=0.6, dropping=0.0)
    degree = topology.degree(100)
    assert degree < 99
    assert _divided(topology, 100, degree) <= 2**-40


def test_parts_of_a_graph():
    assert parts({}) == []
    assert parts({1: {2}, 2: {1}, 3: set()}) == [{1, 2}, {3}]
