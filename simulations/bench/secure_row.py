"""The secure row: Flower's SecAgg+ against our secure sum."""

from __future__ import annotations

from simulations.bench.row import Row
from simulations.bench.secure import compare_with_secaggplus
from simulations.bench.settings import BenchSettings
from simulations.bench.side_by_side import Say
from simulations.nodes.resident import initial_parameters


def secure_rows(settings: BenchSettings, say: Say) -> list[Row]:
    """Sum vectors of the model's size by both protocols, with the same clients lost."""
    say("the secure sum")
    parameters = sum(v.size for v in initial_parameters(settings.config.task, seed=1).values())
    measured = compare_with_secaggplus(
        clients=settings.secure_clients,
        dropped=settings.secure_dropped,
        parameters=parameters,
        repeats=settings.repetitions,
    )
    return [
        Row(
            "secure",
            "a secure round with SecAgg+ of Flower / with ours",
            measured["ratio"],
            "at least",
            3.0,
            details=measured,
            profile={
                name.replace("-seconds", ""): 1e3 * value
                for name, value in measured.items()
                if name.endswith("-seconds")
            },
        ),
        Row(
            "secure-bytes",
            "bytes that a client sends in a secure round / its vector in float32",
            measured["bytes-ratio"],
            "at most",
            1.05,
        ),
    ]
