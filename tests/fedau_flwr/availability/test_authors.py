"""The authors' paths against a transcription of the order in which their program draws."""

import numpy as np
import pytest

from fedau_flwr.availability.authors import AuthorsBernoulli, AuthorsCyclic, AuthorsMarkov

P = np.array([0.02, 0.3, 0.527, 1 / 21, 0.9, 0.994, 1.0, 0.1, 0.5, 0.02])
ROUNDS = 400


def bernoulli(p, stream):
    for _ in range(ROUNDS):
        yield [stream.binomial(1, chance) == 1 for chance in p]


def markov(p, stream):
    coming, going, there = [], [], []
    for chance in p:
        come, go = 0.05, 0.05 * (1 / chance - 1)
        if go > 1:
            come, go = come / go, 1
        coming.append(come)
        going.append(go)
        there.append(stream.binomial(1, chance) == 1)
    for _ in range(ROUNDS):
        for n in range(len(p)):
            if stream.binomial(1, going[n] if there[n] else coming[n]) == 1:
                there[n] = not there[n]
        yield list(there)


def cyclic(p, stream):
    on = [max(1, int(np.round(100 * chance))) for chance in p]
    off = [max(1, 100 - rounds) for rounds in on]
    left = [stream.randint(rounds) for rounds in off]
    there = [False] * len(p)
    for _ in range(ROUNDS):
        for n in range(len(p)):
            if left[n] == 0:
                there[n] = not there[n]
                left[n] = on[n] if there[n] else off[n]
            left[n] -= 1
        yield list(there)


both = pytest.mark.parametrize(
    ("process", "program"),
    [(AuthorsBernoulli, bernoulli), (AuthorsMarkov, markov), (AuthorsCyclic, cyclic)],
)


@both
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_coin_is_that_of_the_authors(process, program, seed):
    stream = np.random.RandomState(seed)
    stream.dirichlet(np.full(10, 0.1), 3)  # what came before, at an odd place in the stream
    path = process(P, stream)
    expected = list(program(P, stream))
    got = [path.active(t) for t in range(ROUNDS)]
    np.testing.assert_array_equal(got, expected)


@both
def test_the_stream_is_left_as_it_was_and_rounds_come_in_any_order(process, program):
    del program
    stream = np.random.RandomState(7)
    path = process(np.resize(P, 250), stream)
    late = path.active(300)
    assert stream.random_sample() == np.random.RandomState(7).random_sample()
    again = process(np.resize(P, 250), np.random.RandomState(7))
    assert not late.all()
    np.testing.assert_array_equal([again.active(t) for t in range(301)][300], late)
    np.testing.assert_array_equal(path.active(5), again.active(5))


def test_no_client_is_there_for_a_whole_cycle():
    path = AuthorsCyclic([1.0, 0.3], np.random.RandomState(1))
    assert [path.active(t)[0] for t in range(202)] == ([True] * 100 + [False]) * 2
    np.testing.assert_allclose(path.probability, [100 / 101, 0.3])


@both
def test_tiny_probabilities_are_fine(process, program):
    del program
    path = process([1e-16, 5e-324, np.nextafter(1, 0)], np.random.RandomState(1))
    assert not any(path.active(t)[:2].all() for t in range(150))


def test_max_activation_outside_the_range_is_named():
    with pytest.raises(ValueError, match=r"^max_activation is 1.1, but must be in"):
        AuthorsMarkov([0.5], np.random.RandomState(1), 1.1)
