"""Participation patterns in a picture, and each in one line."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedau_flwr.availability import Process
from simulations.config import RunConfig
from simulations.patterns import PATTERNS
from simulations.report import plot_style
from simulations.runs.experiment import open_experiment

SHOWN_PATTERNS = ("bernoulli", "markov", "cyclic")
SHOWN_ROUNDS = 400


def pattern_picture(
    config: RunConfig, probability: float, patterns: Sequence[str] = SHOWN_PATTERNS
) -> Figure:
    """Return when one client of this probability is there under each pattern.

    Of a recording it is the one of the run's clients that comes nearest to it.
    """
    title = f"one client with p = {probability:g}, seed {config.seed}"
    height = 1.4 * len(patterns)
    figure, axes = plot_style.new_figure(12, height, title, nrows=len(patterns), sharex=True)
    for axis, text in zip(axes, patterns, strict=True):
        pattern, there = PATTERNS.find(text), _one_client(config, text, probability)
        axis.stairs(there, np.arange(SHOWN_ROUNDS + 1), fill=True, color="#0072B2")
        axis.set(ylabel=pattern.name, ylim=(0, 1.05), xlim=(0, SHOWN_ROUNDS))
        axis.set_yticks([0, 1], ["away", "there"])
        axis.grid(visible=False)
        axis.set_title(" ".join(pattern.parameters()), size=9, loc="left")
        axis.set_title(f"there in {int(there.sum())} of {SHOWN_ROUNDS} rounds", size=9, loc="right")
    axis.set_xlabel("round")
    return figure


def _one_client(config: RunConfig, text: str, probability: float) -> NDArray[np.float64]:
    pattern = PATTERNS.find(text)
    if pattern.recorded:
        experiment = open_experiment(replace(config, pattern=text))
        process, given = experiment.process, experiment.probabilities
    else:
        given = np.array([probability])
        process = pattern.process(given, seed=config.seed, rounds=config.rounds)
    client = int(np.argmin(abs(given - probability)))
    return np.array([process.active(t)[client] for t in range(SHOWN_ROUNDS)], float)


def pattern_line(config: RunConfig, text: str) -> str:
    """Return how many clients a pattern has, how many are there, and how often they come."""
    experiment = open_experiment(replace(config, pattern=text))
    share, interval = participation_of(experiment.process, SHOWN_ROUNDS)
    between = f"a mean interval of {interval:.1f} rounds" if interval else "nobody comes twice"
    label = experiment.config.participation.label
    return (
        f"{label}: {experiment.process.clients} clients, {share:.1%} of them there, {between}, "
        f"over {SHOWN_ROUNDS} rounds."
    )


def participation_of(process: Process, rounds: int) -> tuple[float, float | None]:
    """Return the share of clients that are there, and the mean interval between two turns."""
    first = np.full(process.clients, -1)
    last, turns = first.copy(), np.zeros(process.clients, np.int64)
    for t in range(rounds):
        there = process.active(t)
        first[there & (first < 0)] = t
        last[there] = t
        turns += there
    share, intervals = float(turns.mean() / rounds), int(np.maximum(turns - 1, 0).sum())
    return share, float((last - first).sum() / intervals) if intervals else None
