from types import SimpleNamespace

from fedau_flwr.server.callbacks import PrometheusTextfile
from fedau_flwr.server.report import RoundReport

REPORT = RoundReport(round=4, asked=5, counted=3, rejected=1, absent=1, seconds=2.5)


def loop(**metrics):
    return SimpleNamespace(rounds=9, attempt=2, metrics=metrics)


def test_text_is_the_exposition_format(tmp_path):
    path = tmp_path / "metrics.prom"
    PrometheusTextfile(path, run='a "run"').round_done(loop(), REPORT)
    lines = path.read_text().splitlines()
    assert lines[:3] == [
        "# HELP fedau_round Rounds that are in the model.",
        "# TYPE fedau_round gauge",
        'fedau_round{run="a \\"run\\""} 4',
    ]
    assert 'fedau_attempt{run="a \\"run\\""} 2' in lines
    assert 'fedau_round_seconds{run="a \\"run\\""} 2.5' in lines
    assert not any("test_loss" in line for line in lines)
    assert path.stat().st_mode & 0o777 == 0o644


def test_counters_add_up_and_gauges_do_not(tmp_path):
    textfile = PrometheusTextfile(tmp_path / "metrics.prom", run="r")
    metrics = {"test_loss": 0.5, "top-5": 0.75, "by_class": [0.1], "unknown": None, "counted": 7.0}
    textfile.round_done(loop(**metrics), REPORT)
    textfile.round_done(loop(), REPORT)
    text = textfile.text()
    for line in (
        'fedau_participants{run="r"} 3',
        'fedau_participations_total{run="r"} 6',
        'fedau_absences_total{run="r"} 2',
        'fedau_rejections_total{run="r"} 2',
        'fedau_seconds_total{run="r"} 5',
        'fedau_test_loss{run="r"} 0.5',
        'fedau_top_5{run="r"} 0.75',
        'fedau_counted{run="r"} 7',
    ):
        assert line in text.splitlines()
    assert "by_class" not in text
    assert "unknown" not in text
    assert list(tmp_path.iterdir()) == [tmp_path / "metrics.prom"]


def test_a_metric_of_the_nodes_cannot_take_the_place_of_the_loop_s_own(tmp_path):
    textfile = PrometheusTextfile(tmp_path / "metrics.prom", run="r")
    textfile.round_done(loop(round=77, seconds_total=1e9), REPORT)
    lines = textfile.text().splitlines()
    assert lines.count('fedau_round{run="r"} 4') == 1
    assert sum(line.startswith("# TYPE fedau_seconds_total") for line in lines) == 1
