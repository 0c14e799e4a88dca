"""What of a guarantee is spent, for logs and metrics.

The exact ε decides. Beside it stands that of Flower's own accountant, which bounds it from above by
Rényi divergences.
"""

from collections.abc import Mapping

from flwr import serverapp

from .._log import log


def renyi_epsilon(delta: float, releases: Mapping[float, int]) -> float:
    """Return the bound on ε for so many releases of each noise multiplier.

    It needs the extra ``privacy``; without it an ImportError says so.
    """
    config = serverapp.PrivacyConfig(
        target_delta=delta,
        population_size=1,
        neighboring_relation=serverapp.NeighboringRelation.ADD_OR_REMOVE_ONE,
        sampling_method=serverapp.SamplingMethod.NO_AMPLIFICATION,
    )
    try:
        accountant = serverapp.RdpAccountant(config)
    except ImportError:
        raise ImportError(
            "Flower's accountant needs the extra 'privacy': pip install 'fedau-flwr[privacy]'."
        ) from None
    for noise, count in releases.items():
        event = serverapp.GaussianPrivacyEvent(
            noise_multiplier=noise, sample_size=1, population_size=1
        )
        accountant.compose(event, count)
    return float(accountant.get_epsilon(delta)) if releases else 0.0


def spent_metrics(
    epsilon: float, delta: float, releases: Mapping[float, int], *, limit: float
) -> dict[str, float]:
    """Return the ε spent for logs and metrics: exact, and Flower's bound where it is installed."""
    found = {"epsilon": epsilon, "epsilon_left": max(0.0, limit - epsilon)}
    try:
        return {**found, "epsilon_renyi": renyi_epsilon(delta, releases)}
    except ImportError:
        return found


def log_spent(spent: dict[str, float], epsilon: float, delta: float) -> dict[str, float]:
    """Write a line about the ε spent so far, and return it."""
    bound = f" (at most {spent['epsilon_renyi']:.4g} by Rényi)" if "epsilon_renyi" in spent else ""
    log.info("Privacy: ε = %.4g of %g spent, δ = %g%s", spent["epsilon"], epsilon, delta, bound)
    return spent
