"""Signals that ask for the end: which they are, and stretches that they must not cut in two.

SIGINT, SIGTERM and SIGHUP all mean the same: end in order, keep what was measured, undo what was
made. Each becomes a ``KeyboardInterrupt`` in the main thread, as soon as that may be interrupted.
A thread of its own says at once that the signal came: Python's own handler writes to a pipe as the
signal arrives, whatever the main thread is doing (``signal.set_wakeup_fd``).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_READ_BYTES: Final = 64
"""At once, of the pipe of signals: each writes its number."""
_AGAIN_S: Final = 0.02
"""A signal that arrives while a module is imported comes once more after so long."""


class _Acknowledgement:
    """What is said when the first signal comes, once."""

    def __init__(self) -> None:
        self.sentence = "Stopping."
        self.say: Callable[[str], None] = lambda _sentence: None
        self.is_said = False
        self._lock = threading.Lock()

    def give(self) -> None:
        """Say it, unless that is done already; returns when it is said."""
        with self._lock:
            if not self.is_said:
                # Nobody need be able to read it.
                with suppress(OSError, ValueError):
                    self.say(self.sentence)
                self.is_said = True


_acknowledgement: Final = _Acknowledgement()


def heed(on_hangup: Callable[[], None], say: Callable[[str], None]) -> None:
    """Have each of the three raise ``KeyboardInterrupt``, unless it is ignored.

    ``nohup`` and shells without job control have some of them ignored, and mean it.

    Args:
        on_hangup: Called when the terminal is gone, before the exception is raised.
        say: Called with a sentence as the first of them arrives, from another thread.
    """
    _acknowledgement.say = say
    _listen()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if _is_importing(frame):
            _send_again(number)
            return
        if number == signal.SIGHUP:
            on_hangup()
        raise KeyboardInterrupt

    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a module is being imported.

    There ``KeyboardInterrupt`` may come out as another exception (``RuntimeError`` where a class is
    made), and leaves half a module.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> None:
    """Have a signal arrive once more, a little later."""
    timer = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


def _listen() -> None:
    """Start the thread that says that a signal came."""
    reading, writing = os.pipe()
    # Python's handler must never wait for the pipe.
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def listen() -> None:
        while numbers := os.read(reading, _READ_BYTES):
            if any(number in _SIGNALS for number in numbers):
                _acknowledgement.give()

    threading.Thread(target=listen, name="signals", daemon=True).start()


def acknowledge() -> None:
    """Say that a signal came, unless that was said: before what is said of how it ended."""
    _acknowledgement.give()


def is_stopping() -> bool:
    """Return whether a signal has come."""
    return _acknowledgement.is_said


@contextmanager
def stopping_with(sentence: str) -> Iterator[None]:
    """Say this, within the block, when a signal comes: what becomes of what is going on."""
    former = _acknowledgement.sentence
    _acknowledgement.sentence = sentence
    try:
        yield
    finally:
        _acknowledgement.sentence = former


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
