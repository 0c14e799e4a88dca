"""Whether an implementation computes what it should.

`check` asks any callable the questions of the kit; `compare` takes the answers that a program in
another language has written into a file. Both say what a wrong answer looks like.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from . import one_sum
from .algorithm2 import weights
from .vectors import LITERAL, SHIPPED, Vectors, path_of, read

TOLERANCE = 1e-6

Answer = Callable[[dict[str, Any]], Any]


class Mismatch(AssertionError):
    """An implementation that does not compute what it should: one line per case."""


def check(section: str, answer: Answer, *, vectors: Vectors | None = None) -> int:
    """Ask a callable all questions of a section, and raise `Mismatch` about wrong answers.

    Parameters
    ----------
    section : str
        ``weights``, ``frequency``, ``gaps``, ``groups``, ``protocol`` or ``methods``.
    answer : Callable[[dict], Any]
        Gets a case without its answer, and returns the answer.
    vectors : Vectors | None (default: None)
        Those that come with the package by default; `fedau_flwr.testing.read` reads others. How
        many cases they have in the section is returned.
    """
    cases = (read(SHIPPED) if vectors is None else vectors)[section]
    asked = [{key: value for key, value in case.items() if key != "answer"} for case in cases]
    given = [{**question, "answer": answer(question)} for question in asked]
    if wrong := [line for case in given if (line := _wrong(section, case))]:
        raise Mismatch("\n".join(wrong))
    return len(cases)


def compare(vectors: Vectors) -> dict[str, list[str]]:
    """Return for each section of somebody's answers a line per case that is wrong."""
    return {
        section: [line for case in cases if (line := _wrong(section, case))]
        for section, cases in vectors.items()
    }


def _wrong(section: str, case: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the answer of a case, None if nothing is."""
    name = f"{section}, {case.get('name')!r}"
    try:
        expected = LITERAL[section](case)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        return f"{name}: the question itself cannot be read ({type(error).__name__}: {error})."
    answer = _nested(case.get("answer"))
    if (place := _difference(answer, expected)) is None:
        return None
    return f"{name}: {place}{_diagnosis(section, case, answer)}."


def _nested(value: Any) -> Any:
    """Return numbers, also those of arrays, as JSON has them."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return [_nested(item) for item in value] if isinstance(value, list | tuple) else value


def _difference(answer: Any, expected: Any, where: str = "") -> str | None:
    """Return the first place at which an answer differs."""
    if isinstance(expected, list):
        if not isinstance(answer, list) or len(answer) != len(expected):
            size = len(answer) if isinstance(answer, list) else answer
            return f"the answer{where} has {size!r} instead of {len(expected)} entries"
        parts = (
            _difference(one, other, f"{where}[{place}]")
            for place, (one, other) in enumerate(zip(answer, expected, strict=True))
        )
        return next((part for part in parts if part), None)
    number = isinstance(answer, int | float) and not isinstance(answer, bool)
    if number and expected is not None:
        if math.isclose(answer, expected, rel_tol=TOLERANCE, abs_tol=TOLERANCE):
            return None
    elif answer is None and expected is None:
        return None
    refusal = " (a refusal)" if expected is None else ""
    return f"the answer{where} is {answer!r}, but must be {expected!r}{refusal}"


def _diagnosis(section: str, case: Mapping[str, Any], answer: Any) -> str:
    """Return what a wrong answer looks like, if it is a mistake that is known."""
    found = []
    weighs = section in ("weights", "frequency", "groups") and isinstance(answer, list)
    if weighs and len(set(map(str, answer))) == 1:
        found.append("all weights are equal, so this is FedAvg in disguise")
    if section == "weights":
        path = path_of(case)
        # Of a client that never comes both leave the weight as it is, so it may be either.
        if _difference(answer, capped_weights(path, case["cutoff"])) is None:
            found.append("intervals are capped at the cutoff instead of split there")
        if _difference(answer, weights(path, case["cutoff"], case["smoothing"])[1:]) is None:
            found.append("the weight of a round depends on the round itself")
    if section == "methods":
        for name in ("average-participating", "average-all"):
            other = [model.tolist() for model in one_sum.METHODS[name](case)]
            if case["method"] != name and _difference(answer, other) is None:
                found.append(f"this is {name}, so FedAvg in disguise")
    return f": {', or '.join(found)}" if found else ""


def capped_weights(participation: list[bool], cutoff: int | None) -> list[float]:
    """Return the weights of a mistake: intervals end with a participation alone, capped then."""
    m, s, w = 0, 0, 1.0
    found = [w]
    for took_part in participation:
        s += 1
        if took_part:
            length = s if cutoff is None else min(s, cutoff)
            w = (m * w + length) / (m + 1) if m else float(length)
            m, s = m + 1, 0
        found.append(w)
    return found
