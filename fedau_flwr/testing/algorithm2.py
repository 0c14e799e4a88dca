"""Algorithm 2 of the paper, its variants and its protocol, written literally.

Nothing here is fast or shared with the package's own code: it is what that code, and any other, is
compared with. Rounds are counted from 0 in paths, and from 1 in requests as Flower does.
"""

from collections.abc import Mapping, Sequence
from typing import Any

State = tuple[int, int, float]
"""`M`, `S` and `ω` of Algorithm 2."""

INITIAL: State = (0, 0, 1.0)


def advanced(
    before: State, took_part: bool, cutoff: int | None = None, smoothing: float | None = None
) -> State:
    """Return `M`, `S` and `ω` after one more round."""
    m, s, w = before
    s += 1
    if not (took_part or s == cutoff):
        return m, s, w
    if m == 0:
        w = float(s)
    elif smoothing is None:
        w = (m * w + s) / (m + 1)
    else:
        w = (1 - smoothing) * w + smoothing * s
    return m + 1, 0, w


def weights(
    participation: Sequence[bool], cutoff: int | None = None, smoothing: float | None = None
) -> list[float]:
    """Return the weight in every round, and last the one after all of them.

    The weight of round `t` depends on `participation[:t]` alone.
    """
    states = [INITIAL]
    for took_part in participation:
        states.append(advanced(states[-1], took_part, cutoff, smoothing))
    return [weight for _, _, weight in states]


def frequency_weights(participation: Sequence[bool]) -> list[float]:
    """Return `t / m` in every round, and last the one after all of them; 1 before the first."""
    found, m = [1.0], 0
    for t, took_part in enumerate(participation, 1):
        m += took_part
        found.append(t / m if m else 1.0)
    return found


def group_weights(counted: Sequence[int], size: int, cutoff: int | None = None) -> list[float]:
    """Return the weight of a group's members in every round, and last the one after all of them.

    `counted` has the number of members that were counted in each round.
    """
    intervals, length, elapsed, running, found = 0, 0, 0, 0, [1.0]
    for members in counted:
        elapsed += 1
        running += size
        if members or elapsed == cutoff:
            intervals += members or size
            length += running
            elapsed = running = 0
        weight = length / intervals if intervals else 1.0
        if cutoff is not None:
            weight = min(weight, float(cutoff))
        found.append(max(1.0, weight))
    return found


def after_gap(
    before: State, gap: int, cutoff: int | None = None, smoothing: float | None = None
) -> State:
    """Return `M`, `S` and `ω` after `gap` rounds without participation, one round at a time."""
    for _ in range(gap):
        before = advanced(before, False, cutoff, smoothing)
    return before


class Client:
    """One client's side of the protocol, with its whole history instead of a state.

    A request is a mapping with `round` (from 1), `attempts` (number and first round of each attempt
    that led to the model), `counted` (the last round in which the client was counted, 0 for none,
    None without a record of it) and `restored`: which of its answers the client's state is put back
    to before this request, 0 for none at all, None if nothing happens to it.
    """

    def __init__(self, cutoff: int | None) -> None:
        self._cutoff = cutoff
        # For every answer its round, its attempt, and the rounds before it that were counted.
        self._answers: list[tuple[int, int, frozenset[int]]] = []
        self._after: list[list[tuple[int, int, frozenset[int]]]] = [[]]

    def ask(self, request: Mapping[str, Any]) -> float | None:
        """Return the weight for a request, None if it must be refused."""
        if request["restored"] is not None:
            self._answers = list(self._after[request["restored"]])
        weight = self._weight(request)
        self._after.append(list(self._answers))
        return weight

    def _weight(self, request: Mapping[str, Any]) -> float | None:
        now, attempts = request["round"], [tuple(pair) for pair in request["attempts"]]
        running = attempts[-1][0]
        if any(attempt > running for _, attempt, _ in self._answers):
            return None
        valid = [
            (number, attempt, history)
            for number, attempt, history in self._answers
            if attempt in dict(attempts)
            and all(number < start for other, start in attempts if other > attempt)
        ]
        pending, last_attempt, history = valid[-1] if valid else (0, 0, frozenset[int]())
        if last_attempt == running and now <= pending:
            return None
        counted = pending if request["counted"] is None else request["counted"]
        if counted and counted >= pending:
            history |= {counted}
        self._answers = [*valid, (now, running, history)]
        return weights([t in history for t in range(1, now)], self._cutoff)[-1]
