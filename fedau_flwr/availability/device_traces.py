"""Files in which others have recorded when real devices are there.

All of them are in seconds. Errors are one sentence that names the file, the device and the value.

- on/off events: a ``.csv`` file under the heading ``client,time,state``, state ``on`` or ``off``;
  a client is off before its first event, and everything repeats after the last of all.
- FedScale's ``client_behave_trace``: a pickle of ``{id: {"active": […], "inactive": […],
  "finish_time": …}}``, each device repeating after its own ``finish_time``.
- FLASH's ``state_traces.json``: ``{id: {"messages": …}}``, lines of time, tab and state.
  A device is there while its screen is locked, it charges and has WiFi; each repeats after its own
  last line. (FLASH's own program leaves a stretch out that has not ended by then.)
"""

import json
import math
import pickle
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..checks import check
from .timeline import Timeline
from .trace import read_rows, read_text

Stretch = tuple[float, float]
Device = tuple[float, float, list[Stretch]]
"""Begin of its recording, length of it, and when it is there, relative to the begin."""

_EVENTS = ["client", "time", "state"]
_LOCKED, _CHARGING, _WIFI = "locked", "charging", "WiFi"
_STATES = {
    "screen_lock": (_LOCKED, True),
    "screen_unlock": (_LOCKED, False),
    "battery_charged_on": (_CHARGING, True),
    "battery_charged_off": (_CHARGING, False),
    "wifi": (_WIFI, True),
    **dict.fromkeys(("unknown", "2g", "3g", "4g", "5g"), (_WIFI, False)),
}
_NEUTRAL = {"screen_on", "screen_off", "battery_low", "battery_okay"}


def read_events(path: Path, *, round_seconds: float, clients: int | None = None) -> Timeline:
    """Return the process of a list of on/off events; clients that it does not name never come."""
    rows = read_rows(path)
    if next(rows, (0, []))[1] != _EVENTS:
        raise ValueError(f"{path} does not begin with the line {','.join(_EVENTS)!r}.")
    changes: dict[int, list[tuple[float, bool]]] = {}
    for number, values in rows:
        where, line = f"{path}, line {number}", ",".join(values)[:60]
        fine = len(values) == 3 and values[0].isdecimal() and values[2] in ("on", "off")
        check(where, line, fine, "a client's number, seconds, and on or off")
        when = _seconds(values[1], where)
        changes.setdefault(int(values[0]), []).append((when, values[2] == "on"))
    period = max((when for some in changes.values() for when, _ in some), default=0.0)
    if period <= 0:
        raise ValueError(f"{path} holds no events after second 0.")
    known = max(changes) + 1
    within = clients is None or known <= clients
    check(f"{path}: its last client", known - 1, within, f"below {clients}")
    devices = [(0.0, period, _stretches(sorted(changes.get(n, [])), period)) for n in range(known)]
    return _timeline(devices, round_seconds=round_seconds, clients=clients)


def read_fedscale(
    path: Path, *, round_seconds: float, clients: int | None = None, seed: int = 0
) -> Timeline:
    """Return the process of FedScale's trace; a seed draws which client has which device."""
    try:
        with path.open("rb") as file:
            content = _PlainUnpickler(file).load()
    except OSError:
        raise
    except Exception as error:  # a file of a stranger can fail in every way
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        words = "is no pickle of plain containers and numbers"
        raise ValueError(f"{path} {words}: {reason}.") from None
    devices = [_of_fedscale(path, name, entry) for name, entry in _entries(path, content)]
    return _timeline(devices, round_seconds=round_seconds, clients=clients, seed=seed)


def read_flash(
    path: Path, *, round_seconds: float, clients: int | None = None, seed: int = 0
) -> Timeline:
    """Return the process of FLASH's trace; a seed draws which client has which device."""
    try:
        content = json.loads(read_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not a JSON file: {error}.") from None
    devices = [_of_flash(path, name, entry) for name, entry in _entries(path, content)]
    first = min(begin for begin, _, _ in devices)
    # Devices keep their time of day: all are on the clock of the first line.
    devices = [(begin - first, length, some) for begin, length, some in devices]
    return _timeline(devices, round_seconds=round_seconds, clients=clients, seed=seed)


class _PlainUnpickler(pickle.Unpickler):
    """Makes containers, numbers and texts, and calls nothing."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse every class and function."""
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def _entries(path: Path, content: Any) -> list[tuple[Any, Mapping[str, Any]]]:
    if not isinstance(content, dict) or not content:
        raise ValueError(f"{path} holds no devices: it must hold a dictionary of them.")
    for name, entry in content.items():
        known = isinstance(entry, dict)
        check(f"{path}, device {name!r}", str(entry)[:40], known, "a dictionary")
    return list(content.items())


def _of_fedscale(path: Path, name: Any, entry: Mapping[str, Any]) -> Device:
    where = f"{path}, device {name!r}"
    length = _seconds(entry.get("finish_time"), f"{where}, finish_time")
    lists = {}
    for key in ("active", "inactive"):
        values: Any = entry.get(key)
        check(f"{where}: {key}", values, isinstance(values, list | tuple), "a list of seconds")
        lists[key] = [_seconds(value, f"{where}, {key}") for value in values]
    on, off = lists["active"], lists["inactive"]
    if length <= 0 or len(on) != len(off) or any(a > b for a, b in zip(on, off, strict=True)):
        rule = "active and inactive must alternate, within a finish_time above 0"
        raise ValueError(f"{where}: {len(on)} times active and {len(off)} inactive; {rule}.")
    pairs = zip(on, off, strict=True)
    return 0.0, length, _merged((min(a, length), min(b, length)) for a, b in pairs)


def _of_flash(path: Path, name: Any, entry: Mapping[str, Any]) -> Device:
    where, messages = f"{path}, device {name!r}", entry.get("messages")
    check(f"{where}: messages", messages, isinstance(messages, str), "a text")
    state = dict.fromkeys((_LOCKED, _CHARGING, _WIFI), False)
    changes: list[tuple[float, bool]] = []
    for line in filter(str.strip, str(messages).splitlines()):
        when, _, word = (part.strip() for part in line.partition("\t"))
        word = word.lower()
        try:
            second = datetime.strptime(when, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
        except ValueError:
            rule = "a time like 2020-01-28 09:30:00, a tab and a state"
            raise ValueError(f"{where}: a line is {line[:60]!r}, but must be {rule}.") from None
        if word in _STATES:
            what, value = _STATES[word]
            state[what] = value
        elif word not in _NEUTRAL and not word.endswith("%"):
            rule = f"one of {', '.join([*_STATES, *sorted(_NEUTRAL)])} or a percentage"
            check(f"{where}: a state", word[:40], False, rule)
        changes.append((second, all(state.values())))
    begin, end = min(changes, default=(0.0, False))[0], max(changes, default=(0.0, False))[0]
    changes = [(second - begin, on) for second, on in changes]
    changes.sort(key=lambda change: change[0])  # states of the same second stay in their order
    # A device with a single line has nothing to repeat: it is never there.
    length = end - begin or 1.0
    return begin, length, _stretches(changes, length)


def _stretches(changes: Iterable[tuple[float, bool]], end: float) -> list[Stretch]:
    """Return the stretches that changes between on and off make; the last one ends at the end."""
    found, since = [], None
    for when, on in changes:
        if on and since is None:
            since = when
        elif not on and since is not None:
            found.append((since, when))
            since = None
    return _merged([*found, *([] if since is None else [(since, end)])])


def _merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return stretches in their order, those that overlap or touch as one, empty ones left out."""
    merged: list[Stretch] = []
    for start, end in sorted(stretches):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif start < end:
            merged.append((start, end))
    return merged


def _timeline(devices: list[Device], **options: Any) -> Timeline:
    begins, lengths, stretches = zip(*devices, strict=True)
    pairs = [np.array(some, np.float64).reshape(-1, 2) for some in stretches]
    return Timeline(pairs, np.array(lengths), starts=np.array(begins), **options)


def _seconds(value: object, where: str) -> float:
    try:
        seconds = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        seconds = math.nan
    fine = not isinstance(value, bool) and 0 <= seconds < math.inf
    check(where, str(value)[:40], fine, "a number of seconds")
    return seconds
