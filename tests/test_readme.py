"""The README's example and numbers are what it says they are."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from simulations.bench import settings
from simulations.config import RunConfig

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_example_runs_as_it_is_printed(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    (tmp_path / "example.py").write_text(example)
    result = subprocess.run(
        [sys.executable, "example.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert re.search(r"^FedAU is around 4\.4: all clients' mean is 4\.5", result.stdout, re.M)
    assert "It prints 4.4 on our machine" in README


def test_the_table_of_lost_replies_is_the_generated_one():
    table = (ROOT / "simulations" / "results" / "lost-replies" / "table.md").read_text()
    assert table in README


def test_the_tables_of_the_demo_are_the_generated_ones():
    tables = (ROOT / "simulations" / "results" / "demo" / "tables.md").read_text(encoding="utf-8")
    accuracy, _, classes = re.findall(r"(?:^\|.*\n)+", tables, re.MULTILINE)
    assert accuracy in README
    assert classes in README


def test_results_of_runs_are_the_generated_ones():
    results = ROOT / "simulations" / "results"
    said = (results / "README.md").read_text(encoding="utf-8")
    for tables in results.glob("*/tables.md"):
        text = tables.read_text(encoding="utf-8")
        assert re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)[0] in README, tables
        assert f"| `{tables.parent.name}/` |" in said
    for image in re.findall(r"\]\((simulations/[^)]*)\)", README):
        assert (ROOT / image).is_file(), image


def test_the_table_of_the_benchmark_is_the_generated_one():
    results = ROOT / "simulations" / "results" / "bench"
    assert (results / "bench.md").read_text(encoding="utf-8") in README
    rows = json.loads((results / "bench.json").read_text(encoding="utf-8"))["rows"]
    for row in rows:
        line = next(line for line in README.splitlines() if line.startswith(f"| {row['text']} |"))
        assert float(line.split("|")[2].split()[0]) == pytest.approx(row["value"], abs=0.005)
        assert line.endswith(" met |" if row["met"] else " missed |")
    memory = next(row for row in rows if row["key"] == "scale")["details"]
    many, few = (round(memory[f"server-megabytes-{clients}"]) for clients in (100_000, 250))
    assert (
        f"100,000 clients the server process holds {many} MB, at 250 it holds {few} MB." in README
    )


def test_the_benchmark_is_that_of_this_code():
    bench = json.loads((ROOT / "simulations/results/bench/bench.json").read_text(encoding="utf-8"))
    now = settings.full(Path("/anywhere"), Path("/anywhere"))
    for key, config in (("run", now.config), ("scale", now.scale)):
        assert RunConfig.parse(bench[key]) == replace(config, data_dir="")
    assert bench["repetitions"] == now.repetitions
    assert bench["seconds"] <= 600
    numbers = re.findall(r"`([a-z0-9-]+)` \(([\d.]+)\)", README)
    assert len(numbers) >= 6
    for name, number in numbers:
        assert float(number) == pytest.approx(bench["million"][name], rel=0.01), name
