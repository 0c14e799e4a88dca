"""What all processes promise: pure paths, one-sentence errors."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedau_flwr.availability import ArrivalDeparture, Bernoulli, Cyclic, Markov, Sine, Staircase
from fedau_flwr.availability.draws import Draws
from tests.fuzzing import examples

P = np.array([0.02, 0.1, 0.3, 0.527, 0.9, 1.0])
PROCESSES = {
    "bernoulli": Bernoulli,
    "markov": Markov,
    "cyclic": Cyclic,
    "cyclic-authors": lambda p, seed: Cyclic(p, seed, variant="starts-inactive"),
    "sine": Sine,
    "staircase": Staircase,
    "arrival-departure": lambda p, seed: ArrivalDeparture(p, seed, rounds=300),
}
every_process = pytest.mark.parametrize("make", PROCESSES.values(), ids=PROCESSES.keys())


@every_process
@settings(max_examples=examples(20), deadline=None)
@given(rounds=st.lists(st.integers(0, 700), min_size=1, max_size=12), seed=st.integers(0, 2**70))
def test_any_order_of_access_gives_the_same_path(make, rounds, seed):
    process = make(P, seed)
    path = {t: process.active(t) for t in rounds}
    again = make(P, seed)
    for t in sorted(path):
        np.testing.assert_array_equal(again.active(t), path[t])


@every_process
def test_seeds_give_different_paths(make):
    p = np.full(200, 0.3)
    first, second = make(p, 1), make(p, 2)
    assert any((first.active(t) != second.active(t)).any() for t in range(100))


@every_process
def test_a_changed_answer_does_not_change_the_path(make):
    process = make(P, 3)
    expected = [process.active(t).copy() for t in range(5)]
    for t in range(5):
        process.active(t)[:] = ~expected[t]
    for t in range(5):
        np.testing.assert_array_equal(process.active(t), expected[t])


@every_process
def test_answer_is_one_flag_per_client(make):
    process = make(P, 3)
    assert process.clients == len(P)
    assert process.active(np.int64(7)).shape == (len(P),)
    assert process.active(7).dtype == np.bool_


@every_process
def test_tiny_probabilities_are_fine(make):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        process = make([1e-16, 5e-324, np.nextafter(1, 0)], 1)
        for t in range(150):
            process.active(t)
        if process.probability is not None:
            assert np.isfinite(process.probability).all()


@every_process
@pytest.mark.parametrize("wrong", [0.0, -0.1, 1.5, float("nan"), float("inf")])
def test_probability_outside_the_range_is_named(make, wrong):
    with pytest.raises(
        ValueError,
        match=r"^p\[1\] is .*, but must be in \(0, 1\], as participation probabilities\.$",
    ):
        make([0.5, wrong], 1)


@every_process
def test_wrong_shapes_seeds_and_rounds_are_named(make):
    with pytest.raises(ValueError, match=r"^p is .*, but must be a list"):
        make(0.5, 1)
    with pytest.raises(ValueError, match=r"^p is .*, but must be a list"):
        make([], 1)
    with pytest.raises(ValueError, match=r"^p is .*, but must be a list"):
        make(["often", 0.5], 1)
    with pytest.raises(ValueError, match=r"^seed is -1, but must be "):
        make([0.5], -1)
    for wrong in (-1, 1.5, True):
        with pytest.raises(ValueError, match=rf"^t is {wrong}, but must be an integer >= 0"):
            make([0.5], 1).active(wrong)


def test_the_first_numbers_of_a_stream_never_change():
    assert Draws(1, "independent").uniforms(0, 3).tolist() == [
        0.06435650540643578,
        0.11736333650627062,
        0.3967178253651503,
    ]


def test_a_longer_draw_begins_with_the_shorter_one():
    draws = Draws(5, "loss")
    np.testing.assert_array_equal(draws.uniforms(9, 100)[:7], draws.uniforms(9, 7))


@every_process
def test_one_round_of_many_clients_has_no_loop_over_them(make, monkeypatch):
    process = make(np.full(100_000, 0.1), 1)
    process.active(0)
    sizes = []
    original = Draws.uniforms

    def counted(self, t, size):
        sizes.append(size)
        return original(self, t, size)

    monkeypatch.setattr(Draws, "uniforms", counted)
    process.active(1)
    assert sizes in ([100_000], [])
