"""Pictures of participation: the patterns, how it goes with the data, how it is distributed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from simulations.config import RunConfig
from simulations.patterns import PATTERNS
from simulations.report.client_distributions import draw_cdf
from simulations.report.plot_style import (
    line_styles,
    nested_styles,
    new_figure,
    new_mosaic,
    save,
)
from simulations.report.studies import FLOORS, MEANS
from simulations.runs.experiment import open_experiment

SHOWN_PATTERNS = ("bernoulli", "markov", "cyclic")
SHOWN_ROUNDS = 400
SHOWN_CLIENTS = 20
_SMALLEST = 1e-8
"""Without a floor probabilities reach 1e-300; what is below is drawn at the left edge."""


def draw_participation(config: RunConfig, out: Path, *, probability: float) -> list[Path]:
    """Draw all pictures of the participation that `config` describes, as PNG and SVG."""
    clients = min(SHOWN_CLIENTS, config.clients)
    figures = {
        "patterns": pattern_picture(config, probability),
        "heterogeneity": heterogeneity_picture(replace(config, clients=clients)),
        "probabilities": probability_picture(config),
    }
    return [path for name, figure in figures.items() for path in save(figure, out / name)]


def pattern_picture(config: RunConfig, probability: float) -> Figure:
    """Return when one client of this probability is there under each pattern."""
    figure, axes = new_figure(12, 4.2, rows=len(SHOWN_PATTERNS), sharex=True)
    figure.suptitle(f"one client with p = {probability:g}, seed {config.seed}")
    for axis, pattern in zip(axes, SHOWN_PATTERNS, strict=True):
        process = PATTERNS.find(pattern).process(
            np.array([probability]), seed=config.seed, rounds=config.rounds
        )
        there = np.array([process.active(t)[0] for t in range(SHOWN_ROUNDS)], float)
        edges = np.arange(SHOWN_ROUNDS + 1)
        axis.stairs(there, edges, fill=True, color="#0072B2")
        axis.set(ylabel=pattern, ylim=(0, 1.05), xlim=(0, SHOWN_ROUNDS))
        axis.set_yticks([0, 1], ["away", "there"])
        axis.grid(visible=False)
        axis.set_title(f"there in {int(there.sum())} of {SHOWN_ROUNDS} rounds", size=9, loc="right")
    axes[-1].set_xlabel("round")
    return figure


def heterogeneity_picture(config: RunConfig) -> Figure:
    """Return the class shares of some clients above their participation probabilities."""
    experiment = open_experiment(config)
    shares, p = experiment.split.class_shares, experiment.probabilities
    figure, axes = new_mosaic(12, 6.4, ["a", "a", "b"])
    figure.suptitle(
        f"{experiment.task.title}, {config.clients} clients, α_d = {config.alpha_data:g}, "
        f"α_p = {config.alpha_participation:g}, seed {config.seed}"
    )
    image = axes["a"].imshow(shares.T, aspect="auto", cmap="Greys", vmin=0, vmax=1)
    figure.colorbar(image, ax=axes["a"], label="share of the client's data", pad=0.01)
    axes["a"].set_ylabel("class")
    if experiment.task.num_classes <= SHOWN_CLIENTS:
        axes["a"].set_yticks(range(experiment.task.num_classes), experiment.task.classes)
    axes["a"].grid(visible=False)
    axes["b"].bar(range(config.clients), p, color="#0072B2")
    floor = config.min_participation
    style: dict[str, Any] = {"color": "#D55E00", "linestyle": "--", "linewidth": 1.2}
    axes["b"].axhline(floor, label=f"smallest allowed, {floor:g}", **style)
    axes["b"].legend(loc="upper right", frameon=False)
    axes["b"].set(xlabel="client", ylabel="participation probability p")
    axes["b"].set_ylim(top=1.25 * max(p.max(), floor))
    axes["b"].sharex(axes["a"])
    axes["b"].xaxis.set_major_locator(MaxNLocator(integer=True, nbins=config.clients))
    axes["b"].grid(visible=False, axis="x")
    return figure


def probability_picture(config: RunConfig) -> Figure:
    """Return the distribution of the probabilities by floor and, without a floor, by mean."""
    figure, axes = new_figure(12, 4.6, columns=2, sharey=True)
    figure.suptitle(f"{config.task.title}, {config.clients} clients, seed {config.seed}")
    by_floor: dict[str, dict[str, Any]] = {
        f"p ≥ {floor:g}": {"min_participation": floor} for floor in FLOORS
    }
    by_mean: dict[str, dict[str, Any]] = {
        f"mean of p = {mean:g}": {"mean_participation": mean, "min_participation": 0.0}
        for mean in MEANS
    }
    lowest = 1.0
    for axis, settings, looks in zip(
        axes, (by_floor, by_mean), (nested_styles, line_styles), strict=True
    ):
        styles = looks(settings)
        for label, changes in settings.items():
            p = open_experiment(replace(config, **changes)).probabilities
            lowest = min(lowest, float(p.min()))
            draw_cdf(axis, np.maximum(p, _SMALLEST), label, **styles[label])
        axis.set_xscale("log")
        axis.set(xlabel="participation probability p", ylim=(0, 1.02))
        axis.legend(loc="upper left", frameon=False, handlelength=3.4)
    for axis in axes:
        axis.set_xlim(max(_SMALLEST, 10.0 ** np.floor(np.log10(lowest))), 1)
    axes[0].set_ylabel("share of clients below")
    return figure
