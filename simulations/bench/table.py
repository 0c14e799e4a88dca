"""Puts the table of a report into the README: ``python -m simulations.bench.table``."""

import json
import re
from pathlib import Path

from simulations.bench.report import COLUMNS, markdown

PAGE = Path(__file__).with_name("README.md")
REPORT = PAGE.parents[1] / "results" / "bench" / "bench.json"


def main() -> None:
    """Replace the table of the page by that of the report."""
    rows = json.loads(REPORT.read_text(encoding="utf-8"))["rows"]
    table = re.compile(rf"^\| {COLUMNS[0]} \|.*\n(?:\|.*\n)+", re.MULTILINE)
    page, found = table.subn(
        lambda _: markdown([row["cells"] for row in rows]), PAGE.read_text(encoding="utf-8"), 1
    )
    if not found:
        raise SystemExit(f"{PAGE} has no table that begins with {COLUMNS[0]!r}.")
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
