"""``python -m fedau_flwr.testing VECTORS`` checks the answers of another implementation."""

import argparse
import sys
from pathlib import Path

from .conformance import compare
from .vectors import SHIPPED, Vectors, answered, questions, read, write

SHOWN = 5


def main(arguments: list[str] | None = None) -> int:
    """Check a file of answers, or write one; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fedau_flwr.testing", description=__doc__)
    parser.add_argument(
        "vectors",
        nargs="?",
        type=Path,
        default=SHIPPED,
        help="a file of vectors with the answers of an implementation; by default that which "
        f"comes with the package, {SHIPPED}",
    )
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the vectors to FILE")
    parser.add_argument(
        "--questions", metavar="FILE", type=Path, help="write them to FILE without the answers"
    )
    given = parser.parse_args(arguments)
    for path, made in ((given.write, answered), (given.questions, questions)):
        if path is not None:
            write(path, made())
            print(f"Wrote {path}.")
            return 0
    try:
        vectors = read(given.vectors)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return _report(vectors)


def _report(vectors: Vectors) -> int:
    found, asked = compare(vectors), questions()
    for section, wrong in found.items():
        many = len(vectors[section])
        print(f"{section}: {many - len(wrong)} of {many} right")
        for line in wrong[:SHOWN]:
            print(f"  {line}")
        if len(wrong) > SHOWN:
            print(f"  and {len(wrong) - SHOWN} more")
    missing = []
    for section, cases in asked.items():
        names = [case.get("name") for case in vectors.get(section, [])]
        if left := sum(case["name"] not in names for case in cases):
            missing.append(section if left == len(cases) else f"{left} cases of {section}")
    if missing:
        print(f"not answered: {', '.join(missing)}")
    return 1 if any(found.values()) or not any(vectors.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
