"""Texts of methods, tasks and patterns, and what they stand for."""

from dataclasses import dataclass, field

import pytest

from fedau_flwr import FedAUWeighting
from simulations.config import ConfigError, RunConfig
from simulations.methods import METHODS, Method
from simulations.methods.fedau import FedAUMethod
from simulations.patterns import PATTERNS
from simulations.patterns.nonstationary import SinePattern, StaircasePattern
from simulations.tasks import TASKS
from simulations.tasks.synthetic import Synthetic

HERE = __name__


@dataclass(frozen=True)
class Own(FedAUMethod):
    """A method that is nobody else's."""

    bold: bool = field(default=False, metadata={"of": "their own"})


@dataclass(frozen=True)
class Strict(FedAUMethod):
    """A method that checks its parameters in its own words."""

    def __post_init__(self):
        raise ValueError("This one is never right.")


class NoMethod:
    """Something else."""


@dataclass(frozen=True)
class Half(Method):
    """A method without a server."""


@pytest.mark.parametrize(
    ("registry", "text", "found", "canonical"),
    [
        (METHODS, "fedau", FedAUMethod(50), "fedau"),
        (METHODS, "fedau:0", FedAUMethod(0), "fedau:cutoff=0"),
        (METHODS, "fedau:cutoff=7", FedAUMethod(7), "fedau:cutoff=7"),
        (METHODS, f"{HERE}:Own", Own(), f"{HERE}:Own"),
        (METHODS, f"{HERE}:Own:9:bold=true", Own(9, True), f"{HERE}:Own:cutoff=9:bold=true"),
        (METHODS, "simulations.methods.fedau:FedAUMethod:3", FedAUMethod(3), "fedau:cutoff=3"),
        (TASKS, "synthetic:300:test=60", Synthetic(300, 60), "synthetic:train=300:test=60"),
        (PATTERNS, "sine:period=20", SinePattern(20), "sine:period=20"),
        (PATTERNS, "sine:amplitude=0.25", SinePattern(100, 0.25), "sine:amplitude=0.25"),
        (PATTERNS, "staircase:levels=2/0.5", StaircasePattern(50, (2.0, 0.5)),
         "staircase:levels=2.0/0.5"),
    ],
)  # fmt: skip
def test_a_text_stands_for_an_object_and_back(registry, text, found, canonical):
    assert registry.find(text) == found
    assert registry.text(found) == canonical
    assert registry.find(canonical) == found


@pytest.mark.parametrize(
    ("registry", "text", "sentence"),
    [
        (METHODS, "fedadam", "method is 'fedadam', but must be one of fedau, average-part"),
        (METHODS, "mifa:5", "method mifa has the parameter '5', but its own must be left out"),
        (METHODS, "fedau:", "cutoff of method fedau is '', but must be an integer."),
        (METHODS, "fedau:x", "cutoff of method fedau is 'x', but must be an integer."),
        (METHODS, "fedau:-1", "cutoff of method fedau is -1, but must be 0 or more."),
        (METHODS, "fedau:5:6", "method fedau has the parameter '6', but its own must be given"),
        (METHODS, "fedau:5:cutoff=6", "method fedau has the parameter 'cutoff=6', but its own"),
        (METHODS, "no.such:Thing", "method is 'no.such:Thing', but must be something that can be"),
        (METHODS, f"{HERE}:Nobody", f"method is '{HERE}:Nobody', but must be something that"),
        (METHODS, f"{HERE}:NoMethod", f"method is '{HERE}:NoMethod', but must be the import path "
         "of a class derived from simulations.methods.Method."),
        (METHODS, f"{HERE}:Half", f"method is '{HERE}:Half', but must be a class that has "
         "strategy."),
        (METHODS, f"{HERE}:Own:-1", "cutoff of method own is -1, but must be 0 or more."),
        (METHODS, f"{HERE}:Own:bold=1", "bold of method own is '1', but must be true or false."),
        (METHODS, f"{HERE}:Strict", "This one is never right."),
        (TASKS, "mnist", "dataset is 'mnist', but must be one of svhn, cifar10, cifar100"),
        (PATTERNS, "sine:amplitude=2", "amplitude of pattern sine is 2.0, but must be in [0, 1]."),
        (PATTERNS, "sine:amplitude=nan", "amplitude of pattern sine is 'nan', but must be a fin"),
        (PATTERNS, "staircase:levels=1/-1", "levels of pattern staircase is (1.0, -1.0), but "),
        (PATTERNS, "cyclic:period=0", "period of pattern cyclic is 0, but must be at least 1."),
        (PATTERNS, "markov:0", "max_activation of pattern markov is 0.0, but must be in (0, 1]."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_sentence(registry, text, sentence):
    with pytest.raises(ConfigError) as error:
        registry.find(text)
    assert str(error.value).startswith(sentence)
    assert str(error.value).endswith(".")


def test_names_of_parameters_may_be_written_as_the_keys_of_a_run_config_are():
    found = PATTERNS.find("events:/phones.csv:round-seconds=60")
    assert PATTERNS.text(found) == "events:file=/phones.csv:round_seconds=60.0"
    with pytest.raises(ConfigError, match="has the parameter 'round-seconds=5', but its own must"):
        PATTERNS.find("events:/phones.csv:round_seconds=60:round-seconds=5")


def test_what_is_derived_from_ours_is_something_else():
    own = Own(50)
    assert (own.name, own.label, own.slug) == ("own", "own K=50", "own-50")
    assert own != FedAUMethod(50)
    assert own.order() > METHODS.find("fedavg").order()
    assert isinstance(own.weighting(), FedAUWeighting)


def test_labels_and_folders_name_the_cutoff():
    texts = ("fedau", "fedau:0", "mifa")
    assert [METHODS.find(text).label for text in texts] == ["fedau K=50", "fedau K=∞", "mifa"]
    assert [METHODS.find(text).slug for text in texts] == ["fedau-50", "fedau-infinity", "mifa"]


def test_every_entry_says_what_it_is_in_one_line():
    for registry in (METHODS, TASKS, PATTERNS):
        for name in registry.ours():
            line = registry.named(name).summary()
            assert line.partition(" [")[0].endswith(".")
            assert "\n" not in line
    assert METHODS.named("fedau").summary().endswith("[cutoff=50]")


def test_import_paths_are_honoured_only_from_packages_that_are_allowed():
    values = {"method": f"{HERE}:Own"}
    refused = f"method is '{HERE}:Own', but must be a name, or in a package that fedau-allow-import"
    for allowed in ("", "tests.simulation", "tests.simulations.test_registry.more", "other,own"):
        with pytest.raises(ConfigError, match=refused):
            RunConfig.parse(values, imports=allowed)
    for allowed in ("tests", "tests.", "other, tests.simulations", HERE):
        assert RunConfig.parse(values, imports=allowed).algorithm == Own()
    assert RunConfig.parse({"method": "fedau:7"}, imports="").algorithm == FedAUMethod(7)
