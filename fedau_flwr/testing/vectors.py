"""The questions of the conformance kit, and their answers by the literal algorithms.

A file of vectors is JSON: `format`, and for each section a list of cases, which have a name, the
question's fields and the `answer`. The package ships one, `vectors.json`, which
``python -m fedau_flwr.testing --write FILE`` makes.
"""

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import algorithm2, one_sum

FORMAT = "fedau-conformance/1"
SHIPPED = Path(__file__).with_name("vectors.json")

Vectors = dict[str, list[dict[str, Any]]]


def path_of(case: Mapping[str, Any]) -> list[bool]:
    """Return in which rounds the client of a case takes part."""
    return [bit == "1" for bit in case["participation"]]


def _gap(case: Mapping[str, Any]) -> Any:
    before = (case["intervals"], case["elapsed"], case["weight"])
    return [*algorithm2.after_gap(before, case["gap"], case["cutoff"], case["smoothing"])]


def _protocol(case: Mapping[str, Any]) -> Any:
    client = algorithm2.Client(case["cutoff"])
    return [client.ask(request) for request in case["requests"]]


LITERAL: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "weights": lambda case: algorithm2.weights(path_of(case), case["cutoff"], case["smoothing"]),
    "frequency": lambda case: algorithm2.frequency_weights(path_of(case)),
    "gaps": _gap,
    "groups": lambda case: algorithm2.group_weights(case["counted"], case["size"], case["cutoff"]),
    "protocol": _protocol,
    "methods": lambda case: [x.tolist() for x in one_sum.METHODS[case["method"]](case)],
}
"""What answers the questions of each section."""


def questions() -> Vectors:
    """Return all questions, always the same."""
    rng = random.Random(2024)
    paths = {
        "always": "1" * 12,
        "never": "0" * 23,
        "every third round": "001" * 8,
        "a late start": "0" * 17 + "1" + "0" * 6,
        "often, then hardly ever": "11101" + "0" * 30 + "1",
        "at random": "".join(rng.choices("01", (4, 1), k=60)),
    }
    settings = [(None, None), (1, None), (5, None), (7, None), (50, None), (None, 0.25), (5, 0.25)]
    return {
        "weights": [
            {"name": f"{name}, K = {k or '∞'}, β = {b}", "participation": path, "cutoff": k,
             "smoothing": b}
            for name, path in paths.items() for k, b in settings
        ],
        "frequency": [{"name": name, "participation": path} for name, path in paths.items()],
        "gaps": [
            {"name": f"{gap} rounds from M = {m}, S = {s}, K = {k or '∞'}, β = {b}", "intervals": m,
             "elapsed": s, "weight": w, "gap": gap, "cutoff": k, "smoothing": b}
            for m, s, w in ((0, 0, 1.0), (0, 3, 1.0), (4, 2, 2.5))
            for gap in (0, 1, 6, 7, 10_000)
            for k, b in ((7, None), (7, 0.5), (None, None))
        ],
        "groups": [
            {"name": f"{size} members, K = {k or '∞'}", "size": size, "cutoff": k,
             "counted": [rng.choice((0, 0, 0, 1, min(size, 2))) for _ in range(25)]}
            for size in (1, 3, 40) for k in (None, 4)
        ],
        "protocol": _protocol_questions(),
        "methods": _method_questions(rng),
    }  # fmt: skip


def _protocol_questions() -> list[dict[str, Any]]:
    one, two, three = [[1, 1]], [[1, 1], [2, 11]], [[1, 1], [3, 8]]

    def case(name: str, *requests: tuple[Any, ...]) -> dict[str, Any]:
        keys = ("round", "counted", "attempts", "restored")
        asked = [dict(zip(keys, (*r, *(one, None)[len(r) - 2 :]), strict=True)) for r in requests]
        return {"name": name, "cutoff": 6, "requests": asked}

    return [
        case("every reply is counted", (1, None), (2, 1), (5, 2), (6, 5), (20, 6)),
        case("two replies are lost", (1, None), (3, 1), (4, 1), (9, 1), (12, 9)),
        case("never counted", (2, None), (4, 0), (30, 0)),
        case("no record of this client: its own decides", (3, None), (7, None), (9, None)),
        case("the same round twice", (1, None), (4, 1), (4, 1), (3, 1), (6, 4)),
        case("restarted without its last answer", (1, None), (3, 1), (8, 3, one, 1), (9, 8)),
        case("restarted without anything", (1, None), (4, 1), (9, 4, one, 0), (15, 9)),
        case(
            "the server resumes from round 10",
            (2, None), (9, 2), (12, 9), (14, 12), (11, 9, two), (14, 11, two), (16, 14, two),
        ),
        case("an attempt that died without a checkpoint", (3, None), (9, 3, [*one, [2, 5]]),
             (8, 3, three), (12, 8, three)),
        case("a message of an attempt that is over", (2, None), (11, 2, two), (12, 2),
             (13, 11, two)),
    ]  # fmt: skip


def _method_questions(rng: random.Random) -> list[dict[str, Any]]:
    clients, rounds = 5, 24
    p = [0.9, 0.7, 0.5, 0.3, 0.15]
    draw = [["1" if rng.random() < p[n] else "0" for n in range(clients)] for _ in range(rounds)]
    for t in (0, 6, 7, 15):
        draw[t] = ["0"] * clients
    path = ["".join(here) for here in draw]
    lossy = ["".join(rng.choice("0111") for _ in range(clients)) for _ in range(rounds)]
    common = {
        "targets": [[-1.0, 0.5], [2.0, 0.0], [0.25, -3.0], [4.0, 1.0], [-2.0, 6.0]],
        "initial": [1.0, -1.0],
        "participation": path,
        "delivered": ["1" * clients] * rounds,
        "lr": 0.1,
        "steps": 3,
        "server_lr": 0.7,
    }
    own: dict[str, list[dict[str, Any]]] = {
        "fedau": [{"cutoff": 4}, {"cutoff": None}],
        "known-statistics": [{"p": p}],
        # Both a period that ends in a round with participants and one that ends in one without.
        "amplified": [{"period": period, "factor": 1.5} for period in (5, 8)],
        "fedstale": [{"beta": beta, "cutoff": 50} for beta in (0.0, 0.5, 1.0)],
    }
    cases = [
        {"name": " ".join([method, *(f"{k}={v}" for k, v in given.items())]), "method": method,
         "parameters": given, **common}
        for method in one_sum.METHODS for given in own.get(method, [{}])
    ]  # fmt: skip
    for method in ("fedawe", "mimic"):
        name = f"{method} with deliveries that get lost for good"
        case = {"name": name, "method": method, "parameters": {}, **common}
        cases.append(case | {"delivered": lossy})
    return cases


def answered() -> Vectors:
    """Return all questions with their answers."""
    return {
        section: [{**case, "answer": LITERAL[section](case)} for case in cases]
        for section, cases in questions().items()
    }


def write(path: Path, vectors: Vectors) -> None:
    """Write a file of vectors, a case per line."""
    parts = []
    for section, cases in vectors.items():
        lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
        parts.append(f"{json.dumps(section)}: [\n{lines}\n]")
    head = f'"format": {json.dumps(FORMAT)}'
    path.write_text("{" + ",\n".join([head, *parts]) + "}\n", encoding="utf-8")


def read(path: Path) -> Vectors:
    """Read a file of vectors; what is none is one `ValueError` with a sentence."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}.") from None
    found = content.get("format") if isinstance(content, dict) else content
    if found != FORMAT:
        raise ValueError(f"format of {path} is {str(found)[:60]!r}, but must be {FORMAT!r}.")
    for section, cases in content.items():
        if section == "format":
            continue
        if section not in LITERAL:
            raise ValueError(f"{path} has the section {section!r}, but must have {[*LITERAL]}.")
        if not isinstance(cases, list) or not all(isinstance(case, dict) for case in cases):
            raise ValueError(f"section {section!r} of {path} must be a list of objects.")
    return {section: cases for section, cases in content.items() if section != "format"}
