"""What the documentation shows runs, links and numbers in it are what they are said to be."""

import csv
import json
import random
import re
import sys
import textwrap
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Context, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from fedau_flwr import FedAU
from fedau_flwr.files import read_json_lines
from fedau_flwr.testing.in_process_grid import InProcessGrid
from simulations.bench import settings
from simulations.bench.report import markdown
from simulations.config import RunConfig
from simulations.report.authors_program import table_of
from tests.fedau_flwr.federation import Federation, record, towards, training_app, values

ROOT = Path(__file__).parents[1]
PAGES = sorted(path for path in ROOT.glob("**/*.md") if ".venv" not in path.parts)
RESULTS = ROOT / "simulations" / "results"


def read(*parts):
    return ROOT.joinpath(*parts).read_text(encoding="utf-8")


def tables(text):
    return re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)


README = read("README.md")
EVIDENCE = read("simulations", "results", "README.md")
BENCH = read("simulations", "bench", "README.md")


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 170


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_pictures_are_there(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_quickstart_without_the_engine(capsys):
    """With equal weights it is plain averaging, and ends where the README says."""
    sys.path.insert(0, str(ROOT / "simulations" / "examples" / "quickstart"))
    try:
        from quickstart import client_app, server_app
    finally:
        sys.path.pop(0)
    for weighting, end in (("fedau", "4.4"), ("equal", "2.4")):
        config = {"num-server-rounds": 100, "weighting": weighting}
        grid = InProcessGrid(client_app.app, 10, config)
        server_app.app(grid, Context(1, 1, {}, RecordDict(), config))
        assert f"The model is around {end}: " in capsys.readouterr().out
        assert f"{end}" in README


class Seeded(Federation):
    """Draws by the round, since Flower adds up in the order in which it has drawn the nodes."""

    def set_round(self, number):
        random.seed(number)


@pytest.mark.parametrize("own", [True, False], ids=["FedAU", "Flower's FedAvg"])
def test_the_lines_of_a_long_training_evaluate_and_go_on(own, tmp_path, monkeypatch):
    """Interrupted after 20 of 30 rounds and started again, the six lines end where 30 do."""
    lines = re.search(r"(?:^    .*\n|^\n)+(?=\nWith a strategy of this package)", README, re.M)
    script = textwrap.dedent(lines[0]).replace("num_rounds=1000", "num_rounds=rounds")
    seen = []

    def evaluate(server_round, arrays):
        seen.append(server_round)
        return MetricRecord({"loss": float(np.square(values(arrays)["x"]).sum())})

    def play(directory, *parts):
        (tmp_path / directory).mkdir()
        monkeypatch.chdir(tmp_path / directory)
        app = training_app(towards(np.arange(4.0)), mods=None if own else [])
        grid = Seeded(app, 4)
        for rounds in parts:
            strategy = FedAU(4) if own else FedAvg(fraction_evaluate=0.0)
            names = {
                "strategy": strategy,
                "grid": grid,
                "evaluate": evaluate,
                "arrays": record(x=np.zeros(1)),
                "rounds": rounds,
            }
            exec(script, names)
        return values(names["result"].arrays)["x"]

    whole = play("whole", 30)
    assert seen == [10, 20, 30]
    seen.clear()
    np.testing.assert_array_equal(play("parts", 20, 30), whole)
    assert seen == [10, 20, 30]


def test_the_table_of_lost_replies_is_the_generated_one():
    table = (RESULTS / "lost-replies" / "table.md").read_text()
    assert table in EVIDENCE
    assert table in read("fedau_flwr", "README.md")


def test_the_numbers_of_the_demo_are_the_generated_ones():
    accuracy, _, classes = tables((RESULTS / "demo" / "tables.md").read_text(encoding="utf-8"))
    assert accuracy in README
    assert accuracy in EVIDENCE
    assert classes in EVIDENCE
    rows = [line.split("|") for line in classes.splitlines()[2:]]
    (often, rare) = (tuple(cell.strip() for cell in row[3:5]) for row in (rows[0], rows[-1]))
    said = " ".join(README.split())
    assert f"{often[1]} % of the most frequent one's samples and {rare[1]} % of the" in said
    assert f"FedAU {often[0]} and {rare[0]} %" in said


def test_the_headline_on_svhn_is_the_generated_one():
    (accuracy, *_) = tables((RESULTS / "svhn-authors" / "tables.md").read_text(encoding="utf-8"))
    rows = [[cell.strip() for cell in line.split("|")] for line in accuracy.splitlines()[2:]]
    test = {row[3]: row[5] for row in rows if row[2] == "bernoulli" and row[9] == "1, 2, 3"}
    said = " ".join(README.split())
    assert (
        f"FedAU reaches {test['fedau K=50']} % test accuracy, averaging participants "
        f"{test['average-participating']} %, Flower's FedAvg {test['fedavg']} %" in said
    )


def test_the_page_beside_the_paper_is_the_generated_one():
    text = (RESULTS / "svhn-authors" / "tables.md").read_text(encoding="utf-8")
    found = [table for table in tables(text) if "train: ours" in table or "95 %" in table]
    assert len(found) >= 2
    for table in found:
        assert table in EVIDENCE


def test_the_losses_of_the_search_are_the_generated_ones():
    files = sorted((RESULTS / "search-svhn").glob("*.csv"))
    assert len(files) == 7
    for file in files:
        for row in csv.DictReader(file.open(encoding="utf-8")):
            method, local, step, loss, _, remark = row.values()
            with suppress(ValueError):
                loss = f"{float(loss):.4g}"
            assert f"| {method} | {local} | {step} | {loss} | {remark} |" in EVIDENCE


def test_the_differences_of_methods_after_fedau_are_those_of_the_files():
    said = " ".join(EVIDENCE.split())
    with (RESULTS / "svhn-authors" / "paired-svhn-cyclic.csv").open(encoding="utf-8") as file:
        turns = {row["method"]: -float(row["test accuracy"] or 0) for row in csv.DictReader(file)}
    with (RESULTS / "svhn-fedawe" / "accuracy.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    own = {pattern: dict[str, float]() for pattern in ("bernoulli", "sine")}
    for row in rows:
        own[row["pattern"]][row["method"].split(" ")[0]] = float(row["test accuracy mean"])
    ahead, sine = (
        {name: f"{found['fedawe'] - value:.1f}" for name, value in found.items()}
        for found in own.values()
    )
    assert (
        f"weights by frequency are {turns['frequency']:.1f} points behind FedAU, "
        f"FedStale {turns['fedstale']:.1f} and MimiC {turns['mimic']:.0f};" in said
    )
    amplified, fedawe = turns["amplified"], turns["fedawe clip=0.5"]
    assert f"Amplified FedAvg is {amplified:.0f} behind and FedAWE {fedawe:.0f}:" in said
    assert f"it is {ahead['fedau']} points of test accuracy ahead of FedAU" in said
    assert f"FedAWE is {ahead['fedau']} points ahead of FedAU" in said
    assert f"a sine, FedAWE is {sine['fedau']} points ahead of FedAU" in said
    assert f"and {ahead['average-participating']} ahead of averaging participants" in said


def test_the_numbers_of_the_authors_program_are_the_generated_ones():
    text = (RESULTS / "authors-program" / "table.md").read_text(encoding="utf-8")
    assert table_of(RESULTS / "authors-program").markdown() == text
    (table,) = tables(text)
    assert table in EVIDENCE
    found = {}
    for line in table.splitlines()[2:]:
        name, _, test, seeds = (cell.strip() for cell in line.split("|")[1:-1])
        found[name.split("_")[0], seeds] = test
    said = " ".join(EVIDENCE.split())
    assert f"run here, reaches {found['fedvarp', '1, 2']} with seeds 1 and 2" in said
    assert f"run here with seed 1, reaches {found['adaptive', '1']}; ours has" in said
    own = RESULTS / "svhn-authors" / "svhn-markov" / "fedau-infinity-seed1" / "metrics.jsonl"
    late = [entry for entry in read_json_lines(own) if entry["round"] > 1_800]
    mean = 100 * np.mean([entry["test_accuracy"] for entry in late])
    assert f"ours has {mean:.1f} with that seed." in said
    assert f"our run with that seed {mean:.1f}," in said


def test_results_of_runs_are_the_generated_ones():
    for found in RESULTS.glob("*/tables.md"):
        assert tables(found.read_text(encoding="utf-8"))[0] in EVIDENCE, found
        assert f"| `{found.parent.name}/` |" in EVIDENCE


HEADLINE = {
    "CIFAR-10, clients come at random, all 10,000 rounds, the authors' clients": "cifar10-authors",
    "SVHN, one client in a hundred comes, 1,000 rounds": "svhn-low-participation",
    "synthetic (`make demo`), 200 rounds": "demo",
}


@pytest.mark.parametrize(("task", "folder"), HEADLINE.items())
def test_the_one_page_summary_says_what_the_tables_say(task, folder):
    row = next(line for line in EVIDENCE.splitlines() if line.startswith(f"| {task} |"))
    said = [cell.strip() for cell in row.split("|")[2:-1]]
    header, _, *rows = tables((RESULTS / folder / "tables.md").read_text(encoding="utf-8"))[
        0
    ].splitlines()
    names = [cell.strip() for cell in header.split("|")]
    found = [dict(zip(names, map(str.strip, r.split("|")), strict=True)) for r in rows]
    test = {row["method"]: row["test accuracy"] for row in found}
    paper = {row["method"]: row.get("paper: test accuracy", "") for row in found}
    known = ("fedau K=50", "average-participating", "fedavg")
    others = {name: value for name, value in test.items() if name not in known}
    best = max(others.values(), default="", key=lambda value: float(value or 0))
    assert said[0] == test["fedau K=50"]
    assert said[1] == test.get("average-participating", "")
    assert said[2].split(" ")[0] == best
    assert said[3] == test.get("fedavg", "")
    assert said[4] == paper["fedau K=50"]
    assert said[5] == paper.get("average-participating", "")


def test_the_table_of_the_benchmark_is_the_generated_one():
    saved = json.loads((RESULTS / "bench" / "bench.json").read_text(encoding="utf-8"))
    table = markdown([row["cells"] for row in saved["rows"]])
    assert (RESULTS / "bench" / "bench.md").read_text(encoding="utf-8") == table
    assert table in BENCH


def test_the_numbers_of_the_slower_machine_are_the_generated_ones():
    def saved(name):
        rows = json.loads((RESULTS / "bench" / name).read_text(encoding="utf-8"))["rows"]
        assert (RESULTS / "bench" / name).with_suffix(".md").read_text(encoding="utf-8") == (
            markdown([row["cells"] for row in rows])
        )
        return {row["cells"][0]: row for row in rows}

    def step(rows):
        name = "arithmetic of a local step, of what a matrix product reaches on a core"
        return f"{rows[name]['details']['step-milliseconds']:.2f}"

    slower, faster, said = saved("slower-cpu.json"), saved("bench.json"), " ".join(BENCH.split())
    value = {name: row["cells"][1] for name, row in slower.items()}
    memory = value["MIFA / FedAU, both with hosts"]
    assert memory == value["FedVARP / FedAU, both with hosts"]
    assert f"takes {step(slower)} ms instead of {step(faster)}." in said
    hosts = value["FedAU with hosts / bare loop"]
    assert f"hosts take {hosts} times the bare loop, MIFA and FedVARP {memory} times what" in said
    authors = value["the authors' program / FedAU, hosts"]
    assert f"the authors' program {authors} times." in said
    start = value["from `fedau run` to the first trained client"]
    assert f"a run starts in {start}, which" in said
    missed = [name for name, row in slower.items() if row.get("met") is False]
    assert len(missed) == 1 + sum(row.get("met") is False for row in faster.values()) == 4


@pytest.mark.parametrize("name", ["bench.json", "slower-cpu.json"])
def test_the_benchmark_is_that_of_this_code(name):
    bench = json.loads((RESULTS / "bench" / name).read_text(encoding="utf-8"))
    now = settings.full(Path("/anywhere"), Path("/anywhere"))
    for key, config in (("run", now.config), ("scale", now.scale)):
        assert RunConfig.parse(bench[key]) == replace(config, data_dir="")
    assert bench["repetitions"] == now.repetitions


def test_bring_your_own_shows_the_files_that_are_tested():
    page = read("simulations", "README.md")
    own = ROOT / "tests" / "simulations" / "own_package"
    shown = re.findall(r"^`own_fl/(\w+\.py)`.*?^```python\n(.*?)^```$", page, re.M | re.S)
    assert [name for name, _ in shown] == ["methods.py", "tasks.py", "patterns.py"]
    for name, text in shown:
        assert text == (own / "own_fl" / name).read_text(encoding="utf-8"), name
    (points,) = re.findall(r"^```toml\n(.*?)^```$", page, re.M | re.S)
    assert points in (own / "pyproject.toml").read_text(encoding="utf-8")
