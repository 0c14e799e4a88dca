"""What a seed draws before anything is trained: who comes how often, and what weights follow."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from fedau_flwr.weight_state import WeightStates
from simulations.config import AUTHORS, ConfigError, RunConfig
from simulations.report import plot_style
from simulations.report.patterns import SHOWN_PATTERNS, pattern_picture
from simulations.report.runs import class_presence
from simulations.report.studies import FLOORS, MEANS
from simulations.report.table import Table, shortened
from simulations.runs.experiment import open_experiment

SHOWN_CLIENTS = 20
RARE_CLIENTS = 3
PROBABILITY = 0.527
"""Of the frequent client that the paper shows."""

_SMALLEST = 1e-8
"""Without a floor probabilities reach 1e-300; what is below is drawn at the left edge."""


def draw_participation(
    config: RunConfig, out: Path, *, probability: float, patterns: Sequence[str] = SHOWN_PATTERNS
) -> list[Path]:
    """Draw all pictures of the participation that `config` describes, as PNG and SVG."""
    few = replace(config, clients=min(SHOWN_CLIENTS, config.clients))
    figures = {
        "patterns": pattern_picture(config, probability, patterns),
        "heterogeneity": heterogeneity_picture(few),
        "probabilities": probability_picture(config),
    }
    return [p for name, figure in figures.items() for p in plot_style.save(figure, out / name)]


def heterogeneity_picture(config: RunConfig) -> Figure:
    """Return the class shares of some clients above their participation probabilities."""
    experiment = open_experiment(config)
    task, p, floor = experiment.task, experiment.probabilities, config.min_participation
    title = (
        f"{task.title}, {config.clients} clients, α_d = {config.alpha_data:g}, "
        f"α_p = {config.alpha_participation:g}, seed {config.seed}"
    )
    figure, (upper, lower) = plot_style.new_figure(12, 6.4, title, mosaic="a;a;b")
    shares = experiment.split.class_shares
    image = upper.imshow(shares.T, aspect="auto", cmap="Greys", vmin=0, vmax=1)
    figure.colorbar(image, ax=upper, label="share of the client's data", pad=0.01)
    upper.set_ylabel("class")
    if task.num_classes <= SHOWN_CLIENTS:
        upper.set_yticks(range(task.num_classes), task.classes)
    upper.grid(visible=False)
    lower.bar(range(config.clients), p, color="#0072B2")
    style: dict[str, Any] = {"color": "#D55E00", "linestyle": "--", "linewidth": 1.2}
    lower.axhline(floor, label=f"smallest allowed, {floor:g}", **style)
    lower.legend(loc="upper right", frameon=False)
    lower.set(xlabel="client", ylabel="participation probability p")
    lower.set_ylim(top=1.25 * max(p.max(), floor))
    lower.sharex(upper)
    lower.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=config.clients))
    lower.grid(visible=False, axis="x")
    return figure


def probability_picture(config: RunConfig) -> Figure:
    """Return the distribution of the probabilities by floor and, without a floor, by mean."""
    title = f"{config.task.title}, {config.clients} clients, seed {config.seed}"
    figure, axes = plot_style.new_figure(12, 4.6, title, ncols=2, sharey=True)
    by_floor = {f"p ≥ {floor:g}": replace(config, min_participation=floor) for floor in FLOORS}
    by_mean = {
        f"mean of p = {mean:g}": replace(config, mean_participation=mean, min_participation=0.0)
        for mean in MEANS
    }
    styles = plot_style.nested_styles(by_floor) | plot_style.line_styles(by_mean)
    lowest = 1.0
    for axis, configs in zip(axes, (by_floor, by_mean), strict=True):
        for label, changed in configs.items():
            p = open_experiment(changed).probabilities
            lowest = min(lowest, float(p.min()))
            plot_style.draw_cdf(axis, np.maximum(p, _SMALLEST), label, **styles[label])
        axis.set_xscale("log")
        axis.set(xlabel="participation probability p", ylim=(0, 1.02))
        axis.legend(loc="upper left", frameon=False, handlelength=3.4)
    for axis in axes:
        axis.set_xlim(max(_SMALLEST, 10.0 ** np.floor(np.log10(lowest))), 1)
    axes[0].set_ylabel("share of clients below")
    return figure


def participation_table(config: RunConfig, seeds: Sequence[int]) -> Table:
    """Return a row per seed on the participation that it draws for `config`.

    The mean of 1/p says how hard the draw is for methods that serve all clients alike: an
    estimate of the mean update that weighs those who came by 1/p has a variance that grows with it.
    """
    whose = ", drawn as by the paper's authors" if config.draw == AUTHORS else ""
    table = Table(
        "draws",
        f"Participation by seed: {config.task.title}, {config.clients} clients{whose}",
        ["seed", "clients per round", "mean of 1/p", "clients with the smallest p in %",
         "most frequent class there in %", "rarest class there in %"],
    )  # fmt: skip
    for seed in seeds:
        experiment = open_experiment(replace(config, seed=seed))
        p, split = experiment.probabilities, experiment.split
        present = 100 * class_presence(p, split.class_shares, split.sizes)
        floored = 100 * np.mean(p == p.min())
        numbers = (p.sum(), reciprocal(p).mean(), floored, present.max(), present.min())
        table.rows.append([str(seed), *(shortened(float(number)) for number in numbers)])
    return table


def replay_weights(config: RunConfig) -> dict[str, NDArray[Any]]:
    """Return the weights of a run without its training, as `participation.npz` has them.

    They depend on participation alone. The tracked clients are the one whose probability is
    nearest to 0.527, and the three rarest.
    """
    experiment = open_experiment(config)
    p = experiment.probabilities
    rare = np.argsort(p, kind="stable")[:RARE_CLIENTS]
    tracked = np.unique([int(np.argmin(abs(p - PROBABILITY))), *rare.tolist()])
    weighting = config.algorithm.learned_weighting()
    if weighting is None:
        raise ConfigError(f"method is {config.method!r}, but must be one that learns weights.")
    states = WeightStates.repeat(weighting.initial(), config.clients)
    mean, weights = np.empty(config.rounds), np.empty((config.rounds, len(tracked)))
    for t in range(config.rounds):
        mean[t], weights[t] = states.weight.mean(), states.weight[tracked]
        states = weighting.advance_all(states, experiment.process.active(t))
    record = {"probability": p, "tracked": tracked, "mean_weight": mean}
    return {**record, "tracked_weights": weights, "weight": states.weight}


def draw_replayed(config: RunConfig, out: Path) -> list[Path]:
    """Draw the weights of a run without its training, as PNG and SVG."""
    head = [config.algorithm.label, config.task.title, config.participation.label]
    figure = weight_paths(replay_weights(config), f"{', '.join(head)}, seed {config.seed}")
    name = f"weights-{config.task.slug}-{config.participation.slug}"
    return [] if figure is None else plot_style.save(figure, out / name)


def weight_paths(record: Mapping[str, NDArray[Any]], title: str) -> Figure | None:
    """Return the mean weight over clients, and those of a frequent and of rare clients."""
    if "mean_weight" not in record or not len(record["mean_weight"]):
        return None
    p, tracked = record["probability"], record["tracked"]
    order = np.argsort(p[tracked], kind="stable").tolist()
    near = int(np.argmin(abs(p[tracked] - PROBABILITY)))
    shown = [near, *[place for place in order if place != near][:RARE_CLIENTS]]
    figure, (first, *others) = plot_style.new_figure(12, 6.2, title, mosaic="aaabbb;ccddee")
    head = f"mean over {len(p)} clients"
    _panel(first, record["mean_weight"], float(np.mean(reciprocal(p))), head)
    for axis, place in zip(others, shown, strict=False):
        client = tracked[place]
        head = f"client {client}, p = {p[client]:.3g}"
        _panel(axis, record["tracked_weights"][:, place], float(reciprocal(p[client])), head)
    for axis in others[len(shown) :]:
        axis.remove()
    plot_style.legend_below(figure, max(figure.axes, key=lambda axis: len(axis.lines)))
    return figure


def reciprocal(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1/p, infinite for clients that never come, as a trace may have them."""
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / np.asarray(p), np.float64)


def _panel(axis: Axes, weights: NDArray[np.float64], target: float, title: str) -> None:
    rounds = np.arange(len(weights))
    style: dict[str, Any] = {"color": "#0072B2", "linewidth": 1.4, "drawstyle": "steps-post"}
    axis.plot(rounds, weights, label="weight ω of FedAU", **style)
    # A client that hardly ever comes would press the weights flat against the axis.
    if target <= 20 * weights.max():
        style = {"color": "#D55E00", "linestyle": "--", "linewidth": 1.8}
        axis.axhline(target, label="reciprocal probability 1/p", **style)
    else:
        title += f"\n1/p = {target:.3g} (not shown)"
    axis.set(xlabel="round t", ylabel="weight", title=title)
    axis.set_ylim(bottom=0)
