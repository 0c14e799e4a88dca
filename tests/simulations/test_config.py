import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulations.config import ConfigError, RunConfig

CLONE = Path(__file__).parents[2]


def test_every_key_is_declared_in_pyproject_with_its_default():
    pyproject = tomllib.loads((CLONE / "pyproject.toml").read_text())
    assert pyproject["tool"]["flwr"]["app"]["config"] == RunConfig().to_dict()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"method": "fedadam"}, "method is 'fedadam', but must be one of fedau, "),
        ({"dataset": "mnist"}, "dataset is 'mnist', but must be one of svhn, "),
        ({"pattern": "always"}, "pattern is 'always', but must be one of bernoulli, "),
        ({"augmentation": "none"}, "augmentation is 'none', but must be one of per-image, "),
        ({"draw": "mine"}, "draw is 'mine', but must be one of own, authors, "),
        ({"draw": "authors", "seed": 2**32}, "seed is 4294967296, but must be below 4294967296 "),
        ({"cutoff": -1}, "cutoff of method fedau is -1, but must be 0 or more."),
        ({"method": "fedau:-1"}, "cutoff of method fedau is -1, but must be 0 or more."),
        ({"clients": 0}, "clients is 0, but must be at least 1."),
        ({"clients": 25_001}, "clients is 25001, but must be at most 25000, "),
        ({"mean-participation": 0.0}, "mean-participation is 0.0, but must be in (0, 1]."),
        ({"mean-participation": 1.1}, "mean-participation is 1.1, but must be in (0, 1]."),
        ({"min-participation": -0.1}, "min-participation is -0.1, but must be in [0, 1]."),
        ({"reply-loss": 1.0}, "reply-loss is 1.0, but must be in [0, 1)."),
        ({"alpha-data": 0.0}, "alpha-data is 0.0, but must be above 0."),
        ({"lr": float("nan")}, "lr is nan, but must be a finite number."),
        ({"local-steps": 2.5}, "local-steps is 2.5, but must be an integer."),
        ({"local-steps": True}, "local-steps is True, but must be no truth value."),
        ({"resume": 1}, "resume is 1, but must be true or false."),
        ({"resume": True}, "resume is True, but must be false unless run-dir is given."),
        ({"run-dir": "here"}, "run-dir is 'here', but must be an absolute path."),
        ({"pattern": "trace"}, "file of pattern trace is missing, but must be given."),
        ({"pattern": "trace:t.csv"}, "file of pattern trace is 't.csv', but must be an absolute "),
        ({"method": "fedavg", "server-lr": 2.0}, "server-lr is 2.0, but must be 0 for fedavg, "),
        ({"method": "fedavg", "secure-sum": True}, "secure-sum is True, but must be false for "),
        ({"groups": "a:2", "secure-sum": True}, "groups is 'a:2', but must be empty with secure-"),
        ({"secure-sum": 1}, "secure-sum is 1, but must be true or false."),
        ({"train-samples": 5}, "train of dataset synthetic is 5, but must be at least 10."),
        ({"dataset": "svhn:50"}, "dataset svhn has the parameter '50', but its own must be left "),
        ({"rounds": 5}, "rounds is not a key of the run config"),
    ],
)
def test_a_wrong_value_is_named_in_one_sentence(values, sentence):
    with pytest.raises(ConfigError) as error:
        RunConfig.parse(values)
    assert str(error.value).startswith(sentence)
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 300), st.text(max_size=4), st.floats()
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(sorted(RunConfig().to_dict())), ANYTHING))
def test_any_values_give_a_config_or_a_sentence(values):
    try:
        config = RunConfig.parse(values)
    except ConfigError as error:
        assert str(error).endswith(".")  # noqa: PT017
    else:
        assert RunConfig.parse(config.to_dict()) == config


def test_zero_stands_for_the_papers_value():
    config = RunConfig(dataset="cifar10", method="average-all", num_server_rounds=0)
    assert (config.rounds, config.local_lr, config.global_lr) == (10_000, 0.1, 10)
    fedavg = RunConfig(dataset="cifar10", method="fedavg")
    assert (fedavg.local_lr, fedavg.global_lr) == (0.0562, 1.0)
    own = RunConfig(dataset="cifar10", lr=0.3, server_lr=2)
    assert (own.local_lr, own.global_lr) == (0.3, 2)


def test_the_local_step_size_decays_as_asked():
    config = RunConfig(dataset="cifar10", lr=0.3, lr_decay=0.1)
    assert [config.local_lr_in(t) for t in (0, 30, 80)] == pytest.approx([0.3, 0.15, 0.1])
    assert RunConfig(dataset="cifar10").local_lr_in(80) == 0.1
    paper = RunConfig(dataset="cifar100", lr_decay=3)
    assert paper.local_lr_in(10_001) == pytest.approx(0.0562 / 2 / 30_004**0.5)


def test_evaluation_is_denser_over_the_last_200_rounds():
    config = RunConfig(num_server_rounds=1000, evaluate_every=100)
    rounds = [r for r in range(1, 1001) if config.evaluates(r)]
    assert rounds == [*range(100, 801, 100), *range(810, 1001, 10)]
    odd = RunConfig(num_server_rounds=23, evaluate_every=5)
    assert [r for r in range(1, 24) if odd.evaluates(r)] == [5, 10, 15, 20, 23]
    once = RunConfig(num_server_rounds=300, evaluate_every=300)
    assert [r for r in range(1, 301) if once.evaluates(r)] == [300]


def test_a_resumed_run_may_change_only_what_does_not_change_the_training():
    config = RunConfig()
    RunConfig(num_server_rounds=99, clients_per_node=5, device="cpu").same_training(config)
    with pytest.raises(ConfigError, match="seed is 2, but must be 1 as in the run"):
        RunConfig(seed=2).same_training(config)
    leaving = RunConfig(pattern="arrival-departure")
    with pytest.raises(ConfigError, match="num-server-rounds is 99, but must be 20"):
        RunConfig(pattern="arrival-departure", num_server_rounds=99).same_training(leaving)


def test_the_keys_of_version_0_1_are_understood():
    old = {"method": "fedau", "cutoff": 0, "trace": "", "train-samples": 300, "test-samples": 60}
    new = RunConfig(method="fedau:0", dataset="synthetic:train=300:test=60")
    assert RunConfig.parse(old) == new
    assert RunConfig.parse({"cutoff": 7, "method": "mifa"}) == RunConfig(method="mifa")
    traced = RunConfig.parse({"pattern": "trace", "trace": "/t.csv"})
    assert traced.participation.file == "/t.csv"
    assert RunConfig.parse({"pattern": "real"}).pattern == "deployment"


def test_texts_that_mean_the_same_are_the_same():
    assert RunConfig(method="fedau:50") == RunConfig()
    assert RunConfig(dataset="synthetic:25000:test=5000").dataset == "synthetic"
