"""Ctrl-C, a service manager and a terminal that is closed: how a command ends in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def orderly_end() -> Iterator[None]:
    """Let a request to terminate unwind the stack, so that nothing is left running."""

    def leave(number: int, frame: object) -> None:
        del frame
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Interruption:
    """Makes the first signal to end a `KeyboardInterrupt`, and lets no other disturb the end.

    So nothing is left behind, also if somebody insists. A signal that was ignored before stays so,
    as SIGHUP does under ``nohup``.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._heard = False

    def ignore(self) -> None:
        """Ignore these signals from now on."""
        self._heard = True

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        if not self._heard:
            self._heard = True
            raise KeyboardInterrupt

    def __enter__(self) -> Self:
        for number in SIGNALS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, self._interrupt)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
