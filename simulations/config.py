"""What a run is: one value for every key of ``[tool.flwr.app.config]`` in pyproject.toml.

The same keys are options of ``fedau run``, overrides of ``flwr run . -c "key=value"`` and lines of
a run's ``config.toml``. A value of 0, or an empty text, stands for "as in the paper" or "chosen for
you" where a key says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from simulations.patterns.builders import PATTERNS
from simulations.tasks.arrays import default_data_dir
from simulations.tasks.prepare import resized
from simulations.tasks.spec import DATASETS, METHODS, DataError, DatasetSpec, dataset

AUGMENTATIONS = ("per-image", "per-batch")
DRAWS = ("own", "authors")
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


def _key(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class RunConfig:
    """The settings of one run; `metadata["help"]` of a field explains its key."""

    method: str = _key("fedau", f"How updates become a step: {', '.join(METHODS)}.")
    dataset: str = _key("synthetic", f"Data set: {', '.join(DATASETS)}.")
    pattern: str = _key("bernoulli", f"How clients come and go: {', '.join(PATTERNS)}.")
    num_server_rounds: int = _key(
        20, "Rounds; 0 is the paper's number: SVHN 2,000, CIFAR-10 and CINIC-10 10,000, CIFAR-100 "
        "20,000."
    )  # fmt: skip
    clients: int = _key(250, "Number of clients N; the paper has 250.")
    seed: int = _key(1, "Seed of data split, participation, initial model and batches; the paper "
                     "has 1 to 5.")  # fmt: skip
    cutoff: int = _key(50, "FedAU's cutoff K; 0 is infinity; the paper has 50 and infinity.")
    alpha_data: float = _key(0.1, "Dirichlet parameter of the data split; the paper has 0.1.")
    alpha_participation: float = _key(
        0.1, "Dirichlet parameter of the participation probabilities; the paper has 0.1."
    )
    mean_participation: float = _key(
        0.1, "Mean participation probability, in (0, 1]; the paper has 0.1."
    )
    min_participation: float = _key(
        0.02, "Smallest participation probability, in [0, 1]; the paper has 0.02."
    )
    draw: str = _key(
        "own", "Who holds which samples and how often each client comes, for a seed: our own draw, "
        "or that of the paper's authors' program."
    )  # fmt: skip
    local_steps: int = _key(5, "Local SGD steps of a participant; the paper has 5.")
    batch_size: int = _key(16, "Mini-batch size; the paper has 16.")
    lr: float = _key(0.0, "Local step size; 0 is the paper's for this method and data set.")
    server_lr: float = _key(0.0, "Global step size; 0 is the paper's for this method and data set.")
    augmentation: str = _key(
        "per-image", "Random crops and flips are drawn per-image or, as the paper's authors did, "
        "per-batch."
    )  # fmt: skip
    reply_loss: float = _key(
        0.0, "Probability that a train reply never arrives, in [0, 1); the paper has 0."
    )
    secure_sum: bool = _key(
        False, "Let the server see nothing but masked vectors and their sum; every method but "
        f"fedavg, at least {LEAST_SECURE} SuperNodes."
    )  # fmt: skip
    trace: str = _key(
        "", "Absolute path of a .csv or .npy file, for the pattern trace, which begins "
        "again after its last round."
    )  # fmt: skip
    train_samples: int = _key(0, "Training samples of the synthetic data set; 0 is its own number.")
    test_samples: int = _key(0, "Test samples of the synthetic data set; 0 is its own number.")
    evaluate_every: int = _key(
        0, "Rounds between evaluations; 0 is a fiftieth of the rounds. Over the last 200 rounds it "
        "is 10 at most, as in the paper."
    )  # fmt: skip
    checkpoint_every: int = _key(0, "Rounds between checkpoints; 0 is a twentieth of the rounds.")
    clients_per_node: int = _key(
        0, "Clients hosted by one SuperNode; 0, or auto on the command line, spreads them over "
        "the SuperNodes that there are, one per worker."
    )  # fmt: skip
    device: str = _key("auto", "Where to train: cpu, cuda, cuda:N, or auto (CUDA if there is any).")
    data_dir: str = _key(
        "", "Absolute path of the data sets' directory; empty is the user's cache."
    )
    run_dir: str = _key(
        "", "Absolute path of the run's own directory; empty is a new one in ~/.fedau/runs."
    )
    round_deadline: float = _key(
        600.0, "Seconds until a round of a real federation goes on without those who have not "
        "replied; with secure-sum, of each of its four exchanges."
    )  # fmt: skip
    groups: str = _key(
        "", "Groups of a real federation's clients that share a history, with their sizes, as in "
        "phones:1200,tablets:80."
    )  # fmt: skip
    resume: bool = _key(False, "Go on from the last checkpoint in run-dir.")

    def __post_init__(self) -> None:
        for item in fields(self):
            _check_type(item.name, getattr(self, item.name), item.default)
        _check_choice("method", self.method, METHODS)
        _check_choice("pattern", self.pattern, PATTERNS)
        _check_choice("augmentation", self.augmentation, AUGMENTATIONS)
        _check_choice("draw", self.draw, DRAWS)
        for name in ("clients", "local_steps", "batch_size"):
            _check(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        for name in ("num_server_rounds", "seed", "cutoff", "lr", "server_lr", "train_samples"):
            _check(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")
        for name in ("test_samples", "evaluate_every", "checkpoint_every", "clients_per_node"):
            _check(name, getattr(self, name), getattr(self, name) >= 0, "0 or more")
        for name in ("alpha_data", "alpha_participation"):
            _check(name, getattr(self, name), getattr(self, name) > 0, "above 0")
        _check("mean_participation", self.mean_participation,
               0 < self.mean_participation <= 1, "in (0, 1]")  # fmt: skip
        _check("min_participation", self.min_participation,
               0 <= self.min_participation <= 1, "in [0, 1]")  # fmt: skip
        _check("device", self.device, bool(re.fullmatch(r"auto|cpu|cuda(:\d+)?", self.device)),
               "cpu, cuda, cuda:N or auto")  # fmt: skip
        _check("round_deadline", self.round_deadline, self.round_deadline > 0, "above 0")
        _check("groups", self.groups, _are_groups(self.groups), "like phones:1200,tablets:80")
        _check("groups", self.groups, not self.groups or self.method == "fedau",
               "empty unless the method is fedau")  # fmt: skip
        _check("reply_loss", self.reply_loss, 0 <= self.reply_loss < 1, "in [0, 1)")
        _check("server_lr", self.server_lr, not (self.server_lr and self.method == "fedavg"),
               "0 for fedavg, which has no global step size")  # fmt: skip
        _check("groups", self.groups, not (self.groups and self.secure_sum),
               "empty with secure-sum: a group's label would leave in clear")  # fmt: skip
        _check("secure_sum", self.secure_sum, not (self.secure_sum and self.method == "fedavg"),
               "false for fedavg, whose clients send more than what is summed")  # fmt: skip
        for name in ("trace", "data_dir", "run_dir"):
            path = Path(getattr(self, name)).expanduser()
            _check(name, getattr(self, name), not getattr(self, name) or path.is_absolute(),
                   "an absolute path")  # fmt: skip
        _check("seed", self.seed, self.draw == "own" or self.seed < 2**32,
               f"below {2**32} with the authors' draw")  # fmt: skip
        _check("trace", self.trace, bool(self.trace) == (self.pattern == "trace"),
               "given for the pattern trace and for no other")  # fmt: skip
        _check("resume", self.resume, not self.resume or bool(self.run_dir),
               "false unless run-dir is given")  # fmt: skip
        _check("clients", self.clients, self.clients <= self.spec.train_count,
               f"at most {self.spec.train_count}, the number of training samples")  # fmt: skip

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> RunConfig:
        """Read a run config as Flower gives it; `ConfigError` names what is wrong in a sentence."""
        known = {key_of(item.name): item for item in fields(cls)}
        for key in values:
            if key not in known:
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
                f" but there are {nodes}: set clients-per-node to 1, or to a number that leaves "
                "more."
            )

    def same_training(self, other: RunConfig) -> None:
        """Raise `ConfigError` unless a run of `other` can go on with these settings."""
        free = MAY_CHANGE - (
            {"num_server_rounds"} if self.pattern == "arrival-departure" else set()
        )
        for item in fields(self):
            mine, others = getattr(self, item.name), getattr(other, item.name)
            if item.name not in free and mine != others:
                raise ConfigError(
                    f"{key_of(item.name)} is {mine!r}, but must be {others!r} as in the run that "
                    "is to be resumed."
                )

    @property
    def data_path(self) -> Path:
        """Directory of the data sets."""
        return Path(self.data_dir).expanduser() if self.data_dir else default_data_dir()

    @property
    def spec(self) -> DatasetSpec:
        """The data set, in the size that is asked for."""
        try:
            spec = dataset(self.dataset)
            if self.train_samples or self.test_samples:
                spec = resized(
                    spec,
                    train_count=self.train_samples or spec.train_count,
                    test_count=self.test_samples or spec.test_count,
                )
        except DataError as error:
            raise ConfigError(str(error)) from None
        return spec

    @property
    def group_sizes(self) -> dict[str, int]:
        """The groups by name, with their sizes."""
        pairs = [item.split(":") for item in self.groups.split(",") if item]
        return {name.strip(): int(size) for name, size in pairs}

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return self.num_server_rounds or self.spec.rounds

    @property
    def local_lr(self) -> float:
        """Local step size before any decay."""
        return self.lr or self.spec.step_size(self.method).local

    @property
    def global_lr(self) -> float:
        """Global step size; 1 where the method has none."""
        return self.server_lr or self.spec.step_size(self.method).server or 1.0

    @property
    def checkpoint_rounds(self) -> int:
        """Rounds between checkpoints."""
        return self.checkpoint_every or max(1, self.rounds // 20)

    def evaluates(self, server_round: int) -> bool:
        """Return whether the model is evaluated after a round."""
        every = self.evaluate_every or max(1, self.rounds // 50)
        if server_round > self.rounds - LAST_ROUNDS:
            every = min(every, LAST_EVERY)
        return server_round % every == 0 or server_round == self.rounds


class ConfigError(ValueError):
    """A setting that is not allowed; the message is one sentence."""


def key_of(name: str) -> str:
    """Return the key of a field."""
    return name.replace("_", "-")


def _are_groups(text: str) -> bool:
    return not text or re.fullmatch(r"(\s*[^\s:,]+:[1-9]\d*\s*(,|$))+", text) is not None


def _check(name: str, value: object, allowed: bool, rule: str) -> None:
    if not allowed:
        raise ConfigError(f"{key_of(name)} is {value!r}, but must be {rule}.")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    _check(name, value, value in choices, f"one of {', '.join(choices)}")


def _check_type(name: str, value: object, default: object) -> None:
    if isinstance(default, bool) or isinstance(value, bool):
        _check(name, value, isinstance(value, bool) and isinstance(default, bool),
               "true or false" if isinstance(default, bool) else "no truth value")  # fmt: skip
    elif isinstance(default, float):
        finite = isinstance(value, int | float) and math.isfinite(value)
        _check(name, value, finite, "a finite number")
    else:
        rule = "an integer" if isinstance(default, int) else "a text"
        _check(name, value, isinstance(value, type(default)), rule)
