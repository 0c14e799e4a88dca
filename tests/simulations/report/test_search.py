import math

import pytest

from simulations.report.search import GLOBAL_GRID, LOCAL_GRID, Search
from simulations.runs.resumption import Step
from tests.simulations.report.made_runs import made_from


def losses(config) -> float:
    """Return a loss that is best at γ = 0.1 and η = 3.16, and explodes at the largest γ."""
    if config.lr > 0.3:
        return math.nan
    return 1 + abs(math.log10(config.lr) + 1) + abs(math.log10(config.global_lr) - 0.5)


def runner(made, *, loss=losses, stop_after=None):
    def run_all(configs) -> bool:
        for config in configs:
            if stop_after is not None and len(made) == stop_after:
                return False
            if Step.of(config).action != "done":
                value = loss(config)
                status = "finished" if math.isfinite(value) else "diverged"
                made_from(config, loss=lambda t, value=value: value, status=status)
                made.append(config)
        return True

    return run_all


def test_grids_are_the_papers():
    assert LOCAL_GRID == (0.01, 0.0178, 0.0316, 0.0562, 0.1, 0.178, 0.316)
    assert GLOBAL_GRID == (1.0, 1.78, 3.16, 5.62, 10.0, 17.8, 31.6)


def test_both_stages_and_the_choice(tmp_path):
    search, made = Search(["fedau:50"], {}, [1], tmp_path), []
    assert search.rounds == 500
    assert search.run(runner(made))
    assert [(c.lr, c.server_lr) for c in made] == [
        *((lr, 1.0) for lr in LOCAL_GRID),
        *((0.1, server_lr) for server_lr in GLOBAL_GRID[1:]),
    ]
    choice = search.choice("fedau:50")
    assert (choice.lr, choice.server_lr) == (0.1, 3.16)
    table = search.table()
    assert len(table.rows) == 13
    assert [str(cell) for cell in table.rows[6]] == ["fedau K=50", "0.316", "1", "no number", ""]
    chosen = [row for row in table.rows if row[4]]
    assert [[str(cell) for cell in row] for row in chosen] == [
        ["fedau K=50", "0.1", "3.16", "1.0003", "chosen"]
    ]


def test_other_grids_begin_with_their_smallest_global_step(tmp_path):
    search = Search(["fedau"], {}, [1], tmp_path, grids=([0.1, 0.2], [0.1, 1.0]))
    made = []
    assert search.run(runner(made))
    assert [(c.lr, c.server_lr) for c in made] == [(0.1, 0.1), (0.2, 0.1), (0.1, 1.0)]
    assert [row[4] for row in search.table().rows if row[4]] == ["chosen, at the edge of the grid"]


def test_an_interrupted_search_goes_on_where_it_was(tmp_path):
    made = []
    assert not Search(["mifa"], {}, [1], tmp_path).run(runner(made, stop_after=9))
    again = []
    assert Search(["mifa"], {}, [1], tmp_path).run(runner(again))
    assert len(made) == 9
    assert len(again) == 13 - 9


def test_built_in_fedavg_has_no_second_stage(tmp_path):
    search, made = Search(["fedavg"], {"num_server_rounds": 10}, [1], tmp_path), []
    assert search.run(runner(made))
    assert [config.server_lr for config in made] == [0.0] * 7
    assert {(config.rounds, config.evaluate_every) for config in made} == {(10, 10)}
    assert search.choice("fedavg").lr == 0.1
    assert {row[2] for row in search.table().rows} == {"none"}


def test_losses_are_means_over_seeds_and_one_that_diverged_is_infinite(tmp_path):
    def loss(config):
        if config.lr == 0.1 and config.seed == 2:
            return math.nan
        return abs(config.lr - 0.1) + config.seed + config.global_lr

    search = Search(["fedau"], {}, [1, 2], tmp_path)
    assert search.run(runner([], loss=loss))
    assert search.choice("fedau").lr == 0.0562
    assert search.choice("fedau").loss == pytest.approx(2.5438)


def test_a_choice_at_the_edge_says_so_and_there_may_be_none(tmp_path):
    search = Search(["fedau"], {}, [1], tmp_path / "edge")
    assert search.run(runner([], loss=lambda c: 1 / c.global_lr))
    assert [row[4] for row in search.table().rows if row[4]] == ["chosen, at the edge of the grid"]
    broken = Search(["fedau"], {}, [1], tmp_path / "broken")
    assert broken.run(runner([], loss=lambda c: math.nan))
    assert broken.choice("fedau") is None
    assert {str(row[3]) for row in broken.table().rows} == {"no number"}
