"""What a run is: one value for every key of ``[tool.flwr.app.config]`` in pyproject.toml.

The same keys are options of ``fedau run``, overrides of ``flwr run . -c "key=value"`` and lines of
a run's ``config.toml``. A value of 0, or an empty text, stands for "as in the paper" or "chosen for
you" where a key says so. Method, data set and pattern are texts that `simulations.registry` reads.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from simulations.methods import METHODS, Method
from simulations.patterns import PATTERNS, Pattern
from simulations.privacy import PRIVACY, Privacy
from simulations.registry import ConfigError, Registry, check, wrong
from simulations.tasks import TASKS, Task
from simulations.tasks.arrays import default_data_dir

__all__ = ["ConfigError", "RunConfig", "key_of"]

AUTHORS, FEDAWE = "authors", "fedawe"
LEAST_SECURE = 3
"""The fewest SuperNodes with which a secure sum hides anything."""

RUNS = Path("~/.fedau/runs")
"""Where runs go if nobody says otherwise: the app itself works in a copy of the clone."""

LAST_ROUNDS, LAST_EVERY = 200, 10
"""The paper's results are means over the last 200 rounds, measured every 10 rounds."""

MAY_CHANGE = frozenset(
    {"checkpoint_every", "clients_per_node", "data_dir", "device", "evaluate_every", "resume"}
    | {"num_server_rounds", "round_deadline", "run_dir"}
)
"""Keys that do not change the training itself, so that a resumed run may have other values."""

REGISTRIES: dict[str, Registry[Any]] = {
    "method": METHODS, "dataset": TASKS, "pattern": PATTERNS, "privacy": PRIVACY
}  # fmt: skip

_MOVED = {
    "cutoff": ("method", "fedau", "cutoff", 50),
    "trace": ("pattern", "trace", "file", ""),
    "train-samples": ("dataset", "synthetic", "train", 0),
    "test-samples": ("dataset", "synthetic", "test", 0),
}
"""Keys of version 0.1: what they are a parameter of today, and the value that meant its default."""

_GROUPS = r"(\s*[^\s:,]+:[1-9]\d*\s*(,|$))+"
_RULES: Mapping[str, tuple[Callable[[Any], object], str]] = {
    "at least 1": (lambda v: v >= 1, "clients local_steps batch_size"),
    "0 or more": (lambda v: v >= 0, "num_server_rounds seed lr server_lr lr_decay "
                  "evaluate_every checkpoint_every clients_per_node"),
    "above 0": (lambda v: v > 0, "alpha_data alpha_participation round_deadline"),
    "in (0, 1]": (lambda v: 0 < v <= 1, "mean_participation"),
    "in [0, 1]": (lambda v: 0 <= v <= 1, "min_participation"),
    "in [0, 1)": (lambda v: 0 <= v < 1, "reply_loss"),
    "one of per-image, per-batch": (lambda v: v in ("per-image", "per-batch"), "augmentation"),
    "one of per-round, continued": (lambda v: v in ("per-round", "continued"), "batches"),
    f"one of own, {AUTHORS}, {FEDAWE}": (lambda v: v in ("own", AUTHORS, FEDAWE), "draw"),
    "one of auto, native, torch": (lambda v: v in ("auto", "native", "torch"), "kernel"),
    "cpu, cuda, cuda:N or auto": (re.compile(r"auto|cpu|cuda(:\d+)?").fullmatch, "device"),
    "like phones:1200,tablets:80": (lambda v: not v or re.fullmatch(_GROUPS, v), "groups"),
    "an absolute path": (lambda v: not v or Path(v).expanduser().is_absolute(), "data_dir run_dir"),
}  # fmt: skip
"""What values must be, whatever the others are: the rule, how it is checked, and for which."""


def _key(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class RunConfig:
    """The settings of one run; `metadata["help"]` of a field explains its key."""

    method: str = _key("fedau", "How updates become a step, as `fedau methods` lists them, with "
                       "parameters after colons: fedau:50.")  # fmt: skip
    dataset: str = _key("synthetic", "Data and model, as `fedau tasks` lists them, with parameters "
                        "after colons: synthetic:train=2000.")  # fmt: skip
    pattern: str = _key("bernoulli", "How clients come and go, as `fedau patterns` lists them, "
                        "with parameters after colons: sine:period=20.")  # fmt: skip
    num_server_rounds: int = _key(20, "Rounds; 0 is the paper's number: SVHN 2,000, CIFAR-10 and "
                                  "CINIC-10 10,000, CIFAR-100 20,000.")  # fmt: skip
    clients: int = _key(250, "Number of clients N; the paper has 250.")
    seed: int = _key(1, "Seed of data split, participation, initial model and batches; the paper "
                     "has 1 to 5.")  # fmt: skip
    alpha_data: float = _key(0.1, "Dirichlet parameter of the data split; the paper has 0.1.")
    alpha_participation: float = _key(0.1, "Dirichlet parameter of the participation "
                                      "probabilities; the paper has 0.1.")  # fmt: skip
    mean_participation: float = _key(0.1, "Mean participation probability, in (0, 1]; the paper "
                                     "has 0.1.")  # fmt: skip
    min_participation: float = _key(0.02, "Smallest participation probability, in [0, 1]; the "
                                    "paper has 0.02.")  # fmt: skip
    draw: str = _key("own", "Who holds which samples and how often each client comes, for a seed: "
                     "our own draw, or that of the paper's authors' program, with its bernoulli, "
                     "markov and cyclic paths; fedawe is our own split with the probabilities of "
                     "FedAWE's experiments, whatever other keys say.")  # fmt: skip
    local_steps: int = _key(5, "Local SGD steps of a participant; the paper has 5.")
    batch_size: int = _key(16, "Mini-batch size; the paper has 16.")
    lr: float = _key(0.0, "Local step size; 0 is the paper's for this method and data set.")
    server_lr: float = _key(0.0, "Global step size; 0 is the paper's for this method and data set.")
    lr_decay: float = _key(0.0, "What divides the local step size in round t = 0, 1, …: "
                           "√(1 + t · lr-decay); FedAWE's paper has 0.1.")  # fmt: skip
    augmentation: str = _key("per-image", "Random crops and flips are drawn per-image or, as the "
                             "paper's authors did, per-batch.")  # fmt: skip
    batches: str = _key("per-round", "A client shuffles its data anew per-round, or goes on "
                        "where its last turn ended (authors' program): continued.")  # fmt: skip
    reply_loss: float = _key(0.0, "Probability that a train reply never arrives, in [0, 1); the "
                             "paper has 0.")  # fmt: skip
    secure_sum: bool = _key(False, "Let the server see nothing but masked vectors and their sum; "
                            "not for Flower's own FedAvg, and with at least "
                            f"{LEAST_SECURE} SuperNodes.")  # fmt: skip
    secure_roster: str = _key("", "Absolute path of a deployment's roster (`fedau keys roster`).")
    privacy: str = _key("none", "Differential privacy of the sums: none, gaussian (fresh noise in "
                        "each round) or matrix (correlated over rounds), with parameters after "
                        "colons: matrix:epsilon=8:norm=1:separation=50.")  # fmt: skip
    evaluate_every: int = _key(0, "Rounds between evaluations, over the last 200 at most 10 as in "
                               "the paper; 0 is a fiftieth of all.")  # fmt: skip
    checkpoint_every: int = _key(0, "Rounds between checkpoints; 0 is a twentieth of the rounds.")
    clients_per_node: int = _key(0, "Clients hosted by one SuperNode; 0, or auto on the command "
                                 "line, spreads them over the SuperNodes that there are, one per "
                                 "worker.")  # fmt: skip
    device: str = _key("auto", "Where to train: cpu, cuda, cuda:N, or auto (CUDA if there is any).")
    kernel: str = _key("auto", "What makes the local steps: native (code for the paper's networks "
                       "on a CPU), torch, or auto, which is native where it can be.")  # fmt: skip
    data_dir: str = _key("", "Absolute path of the data sets' directory; empty is the user's "
                         "cache.")  # fmt: skip
    run_dir: str = _key("", "Absolute path of the run's own directory; empty is a new one in "
                        "~/.fedau/runs.")  # fmt: skip
    round_deadline: float = _key(600.0, "Seconds until a round of a deployment goes on without "
                                 "those who have not replied; with secure-sum, of each of its "
                                 "exchanges, four or five.")  # fmt: skip
    groups: str = _key("", "Groups of a deployment's clients that share a history, with their "
                       "sizes, as in phones:1200,tablets:80.")  # fmt: skip
    resume: bool = _key(False, "Go on from the last checkpoint in run-dir.")

    def __post_init__(self) -> None:
        for item in fields(self):
            _check_type(key_of(item.name), getattr(self, item.name), item.default)
        for name, registry in REGISTRIES.items():
            # The same settings are the same texts: fedau:50 is fedau.
            text = registry.text(registry.find(getattr(self, name)))
            object.__setattr__(self, name, text)
        for rule, (allowed, names) in _RULES.items():
            for name in names.split():
                value = getattr(self, name)
                check(key_of(name), value, bool(allowed(value)), rule)
        for name, fine, rule in self._relations():
            check(key_of(name), getattr(self, name), fine, rule)

    def _relations(self) -> Iterator[tuple[str, bool, str]]:
        """Give keys whose values depend on other keys, whether they may be so, and the rule."""
        method, name, count = self.algorithm, self.algorithm.name, self.task.train_count
        yield ("seed", self.draw != AUTHORS or self.seed < 2**32,
               f"below {2**32} with the authors' draw")  # fmt: skip
        yield "clients", self.clients <= count, f"at most {count}, the number of training samples"
        yield ("batches", self.batches != "continued" or self.participation.simulated,
               "per-round on a deployment, whose nodes keep no count of their turns")  # fmt: skip
        yield "resume", not self.resume or bool(self.run_dir), "false unless run-dir is given"
        yield "groups", not self.groups or method.groups, f"empty for {name}, which knows no groups"
        yield ("groups", not (self.groups and self.secure_sum),
               "empty with secure-sum: a group's label would leave in clear")  # fmt: skip
        yield from self.protection.relations(method, secure=self.secure_sum)
        yield ("server_lr", not self.server_lr or method.server_step,
               f"0 for {name}, which has no global step size")  # fmt: skip
        yield ("secure_roster", self.secure_sum or not self.secure_roster,
               "empty without secure-sum")  # fmt: skip
        yield ("secure_sum", not self.secure_sum or method.secure,
               f"false for {name}, whose clients send more than what is summed")  # fmt: skip

    @classmethod
    def parse(cls, values: Mapping[str, Any], *, imports: str | None = None) -> Self:
        """Read a run config as Flower gives it; `ConfigError` names what is wrong in a sentence.

        Import paths are honoured from the packages `imports`, which has commas; None is all.
        """
        values = _translated(values)
        known = {key_of(item.name): item for item in fields(cls)}
        for name, registry in REGISTRIES.items():
            if imports is not None and isinstance(text := values.get(name), str):
                registry.check_imports(text, imports)
        for key in [key for key in values if key not in known]:
            raise ConfigError(f"{key} is not a key of the run config: see `fedau run --help`.")
        return cls(**{known[key].name: value for key, value in values.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return all values by key."""
        return {key_of(item.name): getattr(self, item.name) for item in fields(self)}

    def check_nodes(self, nodes: int) -> None:
        """Refuse a secure sum over too few SuperNodes to hide anyone's part."""
        if self.secure_sum and nodes < LEAST_SECURE:
            raise ConfigError(
                f"secure-sum is true, which needs at least {LEAST_SECURE} SuperNodes to hide among,"
                f" but there are {nodes}: set clients-per-node to 1, or to another smaller number."
            )

    def same_training(self, other: Self) -> None:
        """Raise `ConfigError` unless a run of `other` can go on with these settings."""
        fixed = self.participation.needs_rounds or self.protection.private
        free = MAY_CHANGE - ({"num_server_rounds"} if fixed else set())
        for item in fields(self):
            mine, others = getattr(self, item.name), getattr(other, item.name)
            if item.name not in free and mine not in (others, "auto"):
                rule = f"{others!r} as in the run that is to be resumed"
                raise wrong(key_of(item.name), mine, rule)

    @property
    def data_path(self) -> Path:
        """Directory of the data sets."""
        return Path(self.data_dir).expanduser() if self.data_dir else default_data_dir()

    @cached_property
    def algorithm(self) -> Method:
        """The method with its parameters."""
        return METHODS.find(self.method)

    @cached_property
    def task(self) -> Task:
        """The task with its parameters."""
        return TASKS.find(self.dataset)

    @cached_property
    def participation(self) -> Pattern:
        """The participation pattern with its parameters."""
        return PATTERNS.find(self.pattern)

    @cached_property
    def protection(self) -> Privacy:
        """The privacy of the sums with its parameters."""
        return PRIVACY.find(self.privacy)

    @property
    def group_sizes(self) -> dict[str, int]:
        """The groups by name, with their sizes."""
        pairs = (item.split(":") for item in self.groups.split(",") if item)
        return {name.strip(): int(size) for name, size in pairs}

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return self.num_server_rounds or self.task.rounds

    @property
    def local_lr(self) -> float:
        """Local step size before any decay."""
        return self.lr or self.algorithm.steps_on(self.task).local

    def local_lr_in(self, t: int) -> float:
        """Return the local step size of round t = 0, 1, …."""
        return self.local_lr * self.task.decay(t) / math.sqrt(1 + t * self.lr_decay)

    @property
    def global_lr(self) -> float:
        """Global step size; 1 where the method has none."""
        steps = self.algorithm.steps_on(self.task)
        return self.server_lr or (steps.server if self.algorithm.server_step else None) or 1.0

    @property
    def checkpoint_rounds(self) -> int:
        """Rounds between checkpoints."""
        return self.checkpoint_every or max(1, self.rounds // 20)

    def evaluates(self, server_round: int) -> bool:
        """Return whether the model is evaluated after a round."""
        every = self.evaluate_every or max(1, self.rounds // 50)
        if every < self.rounds and server_round > self.rounds - LAST_ROUNDS:
            every = min(every, LAST_EVERY)
        return server_round % every == 0 or server_round == self.rounds


def key_of(name: str) -> str:
    """Return the key of a field."""
    return name.replace("_", "-")


def _translated(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run config of version 0.1 with today's keys; today's own stays as it is."""
    values = dict(values)
    old = {key: values.pop(key) for key in list(values) if key in _MOVED}
    if values.get("pattern") == "real":
        values["pattern"] = "deployment"
    for key, (kind, name, parameter, unset) in _MOVED.items():
        given, text = old.get(key, unset), values.get(kind, name)
        if given != unset and isinstance(text, str) and text.split(":")[0] == name:
            values[kind] = f"{text}:{parameter}={given}"
    return values


def _check_type(key: str, value: Any, default: object) -> None:
    rules = {bool: "true or false", float: "a finite number", int: "an integer", str: "a text"}
    kind = type(default)
    check(key, value, kind is bool or not isinstance(value, bool), "no truth value")
    fine = isinstance(value, int | float if kind is float else kind)
    check(key, value, fine and (kind is not float or math.isfinite(value)), rules[kind])
