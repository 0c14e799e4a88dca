from fedau_flwr.server.report import RoundReport
from simulations.runs.prometheus import Exposition

FIRST = RoundReport(round=4, asked=5, counted=3, rejected=1, absent=1, seconds=2.5)


def test_text_is_the_exposition_format(tmp_path):
    path = tmp_path / "metrics.prom"
    exposition = Exposition(path, run='a "run"', rounds=9)
    exposition.add(FIRST, attempt=2)
    lines = path.read_text().splitlines()
    assert lines[:3] == [
        "# HELP fedau_round Rounds that are in the model.",
        "# TYPE fedau_round gauge",
        'fedau_round{run="a \\"run\\""} 4',
    ]
    assert 'fedau_round_seconds{run="a \\"run\\""} 2.5' in lines
    assert not any("test_loss" in line for line in lines)
    assert path.stat().st_mode & 0o777 == 0o644


def test_counters_add_up_and_gauges_do_not(tmp_path):
    exposition = Exposition(tmp_path / "metrics.prom", run="r", rounds=9)
    exposition.add(FIRST, attempt=1, test={"loss": 0.5, "accuracy": 0.75})
    exposition.add(FIRST, attempt=1)
    text = exposition.text()
    for line in (
        'fedau_participants{run="r"} 3',
        'fedau_participations_total{run="r"} 6',
        'fedau_absences_total{run="r"} 2',
        'fedau_rejections_total{run="r"} 2',
        'fedau_seconds_total{run="r"} 5',
        'fedau_test_accuracy{run="r"} 0.75',
    ):
        assert line in text.splitlines()
    assert list(tmp_path.iterdir()) == [tmp_path / "metrics.prom"]
