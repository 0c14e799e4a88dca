from simulations.report.paper_plot import paper_plot
from simulations.report.runs import find_runs
from tests.simulations.report.made_runs import made_run

CIFAR = {"dataset": "cifar10", "num_server_rounds": 0, "evaluate_every": 1000}


def test_every_cell_has_a_dot_of_ours_and_one_of_the_papers(tmp_path):
    for method in ("fedau:50", "mifa"):
        for seed in (1, 2):
            where = tmp_path / f"{method[:4]}{seed}"
            made_run(where, method=method, seed=seed, accuracy=lambda t: 0.7, **CIFAR)
    figure = paper_plot(find_runs(tmp_path))
    train, test = figure.axes
    assert [label.get_text() for label in train.get_yticklabels()] == [
        "CIFAR-10, bernoulli, fedau K=50",
        "CIFAR-10, bernoulli, mifa",
    ]
    ours, theirs = (line.get_xdata().tolist() for line in test.lines if line.get_marker() in "oD")
    assert [round(x, 6) for x in ours] == [70.0, 70.0]
    assert theirs == [77.3, 77.5]


def test_there_is_no_picture_without_the_papers_numbers(tmp_path):
    made_run(tmp_path, num_server_rounds=100)
    assert paper_plot(find_runs(tmp_path)) is None
