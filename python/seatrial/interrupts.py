"""Signals that stop the program, and code that they must not interrupt.

SIGINT, SIGTERM and SIGHUP have the same effect: the run stops, its samples are kept, and changes to
the system are undone. Each becomes a ``KeyboardInterrupt`` in the main thread, as soon as that may
be interrupted.
A thread acknowledges the signal at once: Python's handler writes to a pipe when it arrives,
whatever the main thread is doing (``signal.set_wakeup_fd``).
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
"""Read from the pipe of signals at once; each signal writes its number."""
_AGAIN_S: Final = 0.02
"""A signal that arrives while a module is imported is sent again after this time."""


class _Acknowledgement:
    """The acknowledgement of the first signal, printed once."""

    def __init__(self) -> None:
        self.sentence = "Stopping."
        self.say: Callable[[str], None] = lambda _sentence: None
        self.is_said = False
        self._lock = threading.Lock()

    def give(self) -> None:
        """Print it, unless it was printed; returns when it is printed."""
        with self._lock:
            if not self.is_said:
                # Standard error may be closed.
                with suppress(OSError, ValueError):
                    self.say(self.sentence)
                self.is_said = True


_acknowledgement: Final = _Acknowledgement()


def handle_signals(on_hangup: Callable[[], None], say: Callable[[str], None]) -> None:
    """Make each of the three raise ``KeyboardInterrupt``, unless it is ignored.

    ``nohup`` and shells without job control ignore some of them, which is respected.

    Args:
        on_hangup: Called when the terminal is gone, before the exception is raised.
        say: Called with a sentence when the first of them arrives, from another thread.
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

    Then ``KeyboardInterrupt`` may become another exception (``RuntimeError`` in a class statement)
    and leave a half-imported module.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> None:
    """Send a signal again, a little later."""
    timer = threading.Timer(_AGAIN_S, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


def _listen() -> None:
    """Start the thread that acknowledges signals."""
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
    """Acknowledge a signal, unless that was done: before messages on how the run ended."""
    _acknowledgement.give()


def is_stopping() -> bool:
    """Return whether a signal has arrived."""
    return _acknowledgement.is_said


@contextmanager
def stopping_with(sentence: str) -> Iterator[None]:
    """Acknowledge signals within the block with this sentence."""
    former = _acknowledgement.sentence
    _acknowledgement.sentence = sentence
    try:
        yield
    finally:
        _acknowledgement.sentence = former


def ignore() -> None:
    """Ignore all three from now on, as the command has ended and only prints its result."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay signals until the end of the block.

    A thread other than the main one needs no delay: Python handles signals in the main thread.
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
