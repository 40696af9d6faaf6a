"""Signals that ask for the end: which they are, and stretches that they must not cut in two.

SIGINT, SIGTERM and SIGHUP all mean the same: end in order, keep what was measured, undo what was
made. Each becomes a ``KeyboardInterrupt`` in the main thread.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def heed(on_hangup: Callable[[], None]) -> None:
    """Have each of the three raise ``KeyboardInterrupt``, unless it is ignored.

    ``nohup`` and shells without job control have some of them ignored, and mean it.

    Args:
        on_hangup: Called when the terminal is gone, before the exception is raised.
    """

    def interrupt(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            on_hangup()
        raise KeyboardInterrupt

    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)


def ignore() -> None:
    """Let none of the three do anything from now on: the command has ended, and only says so."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let the block come to its end before a signal is heeded.

    A signal that arrives meanwhile takes effect when the block is left. In a thread other than the
    main one nothing is to be done: Python handles signals in the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    former = {}
    try:
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                former[number] = handler
                signal.signal(number, lambda number, _frame: held.append(number))
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])
