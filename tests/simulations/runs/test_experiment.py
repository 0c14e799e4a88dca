"""What server and workers derive from the settings of a run."""

import numpy as np
import pytest

from fedau_flwr.availability import (
    InterleavedSine,
    Separated,
    Sine,
    uniform_class_probabilities,
)
from simulations.config import ConfigError, RunConfig
from simulations.runs import experiment
from simulations.runs.experiment import open_experiment
from simulations.tasks import Arrays, Part
from simulations.tasks.cifar10 import CIFAR10
from tests.simulations.experiments import tiny


@pytest.fixture
def cifar(monkeypatch):
    """Return a function that opens CIFAR-10's split, which depends on nothing but its labels."""
    labels = np.repeat(np.arange(10), 5_000)
    images = np.zeros((len(labels), 1, 1, 3), np.uint8)
    arrays = Arrays(Part(images, labels), Part(images[:1], labels[:1]))
    monkeypatch.setattr(CIFAR10, "open", lambda *_, **__: arrays)
    experiment.open_experiment.cache_clear()
    yield lambda **settings: experiment.open_experiment(RunConfig(dataset="cifar10", **settings))
    experiment.open_experiment.cache_clear()


def test_the_authors_draw_has_the_client_that_the_paper_shows(cifar):
    p = cifar(draw="authors").probabilities
    assert round(float(p[np.abs(p - 0.527).argmin()]), 3) == 0.527
    assert np.sum(p == 0.02) == 85
    assert p.sum() == pytest.approx(27.7, abs=0.05)


def test_draws_differ_in_split_and_probabilities_and_repeat(cifar):
    # In this order, since the last one that was opened stays resident.
    authors, own, again = cifar(draw="authors"), cifar(), cifar(draw="authors")
    assert again is not authors
    assert not np.array_equal(own.split.indices, authors.split.indices)
    assert not np.array_equal(own.probabilities, authors.probabilities)
    np.testing.assert_array_equal(authors.split.indices, again.split.indices)
    np.testing.assert_array_equal(authors.probabilities, again.probabilities)
    assert not np.array_equal(authors.probabilities, cifar(draw="authors", seed=2).probabilities)


@pytest.mark.parametrize("pattern", ["bernoulli", "markov", "cyclic", "cyclic-starts-inactive"])
def test_the_authors_draw_has_their_participation(cifar, pattern):
    opened = cifar(draw="authors", pattern=pattern)
    stream = np.random.RandomState(1)
    stream.dirichlet(np.full(10, 0.1), 250)
    q = stream.dirichlet(np.full(10, 0.1))
    p = np.clip(opened.split.class_shares @ q, 0.02, 1.0)
    expected = opened.config.participation.authors_process(p, stream)
    for t in (40, 0):
        np.testing.assert_array_equal(opened.process.active(t), expected.active(t))
    own = opened.config.participation.process(p, seed=1, rounds=100)
    assert not np.array_equal(opened.process.active(40), own.active(40))


def test_a_pattern_that_the_authors_do_not_have_keeps_our_path(cifar):
    opened = cifar(draw="authors", pattern="sine")
    p = opened.probabilities
    own = opened.config.participation.process(p, seed=1, rounds=opened.config.rounds)
    np.testing.assert_array_equal(opened.process.active(40), own.active(40))


def test_fedawes_probabilities_come_with_our_own_split(tmp_path):
    own, theirs = (open_experiment(tiny(tmp_path, "run", draw=draw)) for draw in ("own", "fedawe"))
    np.testing.assert_array_equal(own.split.class_shares, theirs.split.class_shares)
    expected = uniform_class_probabilities(theirs.split.class_shares, seed=1)
    np.testing.assert_array_equal(theirs.probabilities, expected)
    assert (own.probabilities != theirs.probabilities).any()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("sine:20:amplitude=0.3:level=0.7", Sine),
        ("interleaved-sine:least=0.2", InterleavedSine),
        ("separated:3:base=cyclic", Separated),
    ],
)
def test_patterns_become_processes(text, kind, tmp_path):
    experiment = open_experiment(tiny(tmp_path, "run", pattern=text))
    assert type(experiment.process) is kind
    assert experiment.process.active(0).shape == (14,)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sine:amplitude=0.9:level=0.7", r"amplitude of pattern sine is 0.9, .* in \[0, 0.7\]"),
        ("separated:separation=-1", "separation of pattern separated is -1"),
        ("separated:base=fedscale", "base of pattern separated is 'fedscale'"),
        ("events:phones.csv", "file of pattern events is 'phones.csv', but must be an absolute"),
        ("flash:/nothing.json:round_seconds=0", "round_seconds of pattern flash is 0.0"),
        (
            "fedscale:/nothing",
            "file of pattern fedscale is '/nothing', but must be a file that can",
        ),
    ],
)
def test_what_is_no_pattern(text, reason, tmp_path):
    with pytest.raises(ConfigError, match=reason):
        open_experiment(tiny(tmp_path, "run", pattern=text))
