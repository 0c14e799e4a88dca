import pytest

from simulations.config import RunConfig
from simulations.runs.estimate import ENGINE, START, Costs, duration, estimated_seconds

SMALL = RunConfig(num_server_rounds=100, evaluate_every=10, clients=20)


def test_a_run_takes_its_rounds_and_its_evaluations():
    costs = Costs(round=2.0, evaluation=3.0)
    assert costs.seconds(SMALL, 2) == START + (ENGINE * 2 * 100 + 3 * 10) / 2
    assert costs.seconds(SMALL, 1, reached=90) == START + ENGINE * 2 * 10 + 3


def test_seeds_and_methods_are_measured_once(monkeypatch):
    asked = []
    monkeypatch.setattr(Costs, "measured", lambda config: asked.append(config) or Costs(1.0, 0.0))
    configs = [RunConfig(num_server_rounds=10, method=m, seed=s) for m in ("mifa", "fedau")
               for s in (1, 2)]  # fmt: skip
    assert estimated_seconds([(c, 0) for c in configs], 1) == pytest.approx(4 * (START + 11))
    assert len(asked) == 1


def test_more_local_steps_cost_more():
    few, many = (Costs.measured(RunConfig(clients=20, local_steps=n)) for n in (1, 40))
    assert many.round > few.round > 0
    assert few.evaluation > 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5, "1 min"), (150, "2 min"), (3_599, "1 h 00 min"), (7_500, "2 h 05 min")],
)
def test_durations_are_said_in_minutes(seconds, text):
    assert duration(seconds) == text
