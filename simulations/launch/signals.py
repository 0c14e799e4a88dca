"""Ctrl-C, a service manager and a terminal that is closed: how a command ends in order.

A signal that was ignored before stays so, as SIGHUP does under ``nohup``.
"""

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def orderly_end() -> AbstractContextManager[None]:
    """Let a request to terminate unwind the stack, so that nothing is left running."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    return _handled(leave, SIGNALS[1:])


@contextmanager
def one_interruption() -> Iterator[Callable[[], None]]:
    """Make the first signal to end a `KeyboardInterrupt`, and let no other disturb the end.

    So nothing is left behind, also if somebody insists. What is returned ends the time in which a
    signal is heard.
    """
    heard = False

    def hear() -> None:
        nonlocal heard
        heard = True

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        if not heard:
            hear()
            raise KeyboardInterrupt

    with _handled(interrupt, SIGNALS):
        yield hear


@contextmanager
def _handled(
    handler: Callable[[int, FrameType | None], None], numbers: Iterable[signal.Signals]
) -> Iterator[None]:
    heard = [each for each in numbers if signal.getsignal(each) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, handler) for number in heard}
    try:
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
