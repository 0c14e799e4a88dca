"""FedAU's weights over the rounds, against the reciprocal of the participation probability."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedau_flwr.weight_state import WeightStates
from simulations.config import ConfigError, RunConfig
from simulations.report.plot_style import legend_below, new_mosaic, save
from simulations.runs.experiment import open_experiment

PROBABILITY = 0.527
"""Of the frequent client that the paper shows."""

RARE_CLIENTS = 3


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
    return {
        "probability": p,
        "tracked": tracked,
        "mean_weight": mean,
        "tracked_weights": weights,
        "weight": states.weight,
    }


def draw_replayed(config: RunConfig, out: Path) -> list[Path]:
    """Draw the weights of a run without its training, as PNG and SVG."""
    head = [config.algorithm.label, config.task.title, config.participation.label]
    title = f"{', '.join(head)}, seed {config.seed}"
    figure = weight_paths(replay_weights(config), title)
    name = f"weights-{config.task.slug}-{config.participation.slug}"
    return [] if figure is None else save(figure, out / name)


def weight_paths(record: Mapping[str, NDArray[Any]], title: str) -> Figure | None:
    """Return the mean weight over clients, and those of a frequent and of rare clients."""
    if "mean_weight" not in record or not len(record["mean_weight"]):
        return None
    p, tracked = record["probability"], record["tracked"]
    order = np.argsort(p[tracked], kind="stable")
    near = int(np.argmin(abs(p[tracked] - PROBABILITY)))
    rare = [int(place) for place in order if place != near][:RARE_CLIENTS]
    shown = [near, *rare]
    figure, axes = new_mosaic(12, 6.2, ["aaabbb", "ccddee"])
    figure.suptitle(title)
    head = f"mean over {len(p)} clients"
    _panel(axes["a"], record["mean_weight"], float(np.mean(reciprocal(p))), head)
    for name, place in zip("bcde", shown, strict=False):
        probability = float(p[tracked[place]])
        head = f"client {tracked[place]}, p = {probability:.3g}"
        target = float(reciprocal(p[tracked[place]]))
        _panel(axes[name], record["tracked_weights"][:, place], target, head)
    for name in "bcde"[len(shown) :]:
        axes[name].remove()
    shown_axes = (axes[name] for name in "abcde"[: 1 + len(shown)])
    legend_below(figure, max(shown_axes, key=lambda axis: len(axis.lines)))
    return figure


def reciprocal(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1/p, infinite for clients that never come, as a trace may have them."""
    found: NDArray[np.float64] = np.divide(
        1.0, p, out=np.full(np.shape(p), np.inf), where=np.asarray(p) > 0
    )
    return found


def _panel(axis: Axes, weights: NDArray[np.float64], target: float, title: str) -> None:
    rounds = np.arange(len(weights))
    style: dict[str, Any] = {"color": "#0072B2", "linewidth": 1.4, "drawstyle": "steps-post"}
    axis.plot(rounds, weights, label="weight ω of FedAU", **style)
    # A client that hardly ever comes would press the weights flat against the axis.
    if target <= 20 * weights.max():
        axis.axhline(
            target,
            color="#D55E00",
            linestyle="--",
            linewidth=1.8,
            label="reciprocal probability 1/p",
        )
    else:
        title += f"\n1/p = {target:.3g} (not shown)"
    axis.set(xlabel="round t", ylabel="weight", title=title)
    axis.set_ylim(bottom=0)
