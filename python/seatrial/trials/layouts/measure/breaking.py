"""An array broken while a load lasts: each fault at its time, and all that follows watched.

A thread does it beside the driver of the sample. It never outlives the sample, and what goes wrong
in it is told with the sample.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Protocol, Self

from seatrial.errors import SeatrialError
from seatrial.measure.progress import Watcher
from seatrial.study.layouts.failure import Failure
from seatrial.trials.layouts.measure.watch import Watch

LOOK_EVERY_S: Final = 0.2
REPAIR_S_MAX: Final = 900.0
"""How long a rebuild is waited for after the load; one that takes longer belongs under load."""
STANDSTILL_S_MAX: Final = 60.0
QUIET_S: Final = 3.0
"""An array that lacks a drive and has done nothing for so long has no spare to rebuild on."""
JOIN_S_MAX: Final = 60.0


class Faults(Protocol):
    """What can be done to an array. Each raises SeatrialError or OSError when it cannot."""

    def prepare(self, failures: Sequence[Failure]) -> None:
        """Find out, before the load, what faults need to know."""

    def do(self, failure: Failure, watch: Watch) -> None:
        """Do one, and note it."""


class Breaking:
    """Breaks and watches an array; a context that ends its thread, whatever happens.

    Args:
        failures: What is done, in order of time.
        faults: Does it.
        watch: Sees what follows.
    """

    def __init__(self, failures: Sequence[Failure], faults: Faults, watch: Watch) -> None:
        self.watch = watch
        self.notes: list[str] = []
        self._failures = list(failures)
        self._faults = faults
        self._began_s = 0.0
        self._load_over = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="breaking", daemon=True)

    def begin(self) -> None:
        """Begin to count the time, right before the load.

        An array that nothing is done to is not watched: looking at it may take commands.
        """
        self._began_s = time.monotonic()
        if self._failures:
            self._thread.start()

    def load_ended(self) -> None:
        """Do nothing more to the array: the load has ended. It is watched on."""
        self._load_over.set()

    def __enter__(self) -> Self:
        self._faults.prepare(self._failures)
        self.watch.look()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._load_over.set()
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(JOIN_S_MAX)
        if self._thread.is_alive():
            self.notes.append(
                f"A command on the array has not ended within {JOIN_S_MAX:g} s: a drive may hang."
            )
        self.notes += [
            f"{failure.fault} after {failure.after_s:g} s was not done: the load had ended."
            for failure in self._failures
        ]
        self._failures = []

    def settle(self, report: Callable[[str], None]) -> None:
        """Wait, without load, until nothing goes on in the array any more, for a bounded time.

        Args:
            report: Told how far it is, about once a second.
        """
        give_up_s = time.monotonic() + REPAIR_S_MAX
        moved_s, last, told_s = time.monotonic(), self._standing(), 0.0
        while self._thread.is_alive():
            now_s, standing = time.monotonic(), self._standing()
            if standing != last:
                moved_s, last = now_s, standing
            if self._is_over(now_s - moved_s):
                return
            if now_s > give_up_s or now_s - moved_s > STANDSTILL_S_MAX:
                self._give_up(now_s)
                return
            if self.watch.is_working and now_s - told_s >= 1.0:
                told_s = now_s
                report(_share(self.watch))
            time.sleep(LOOK_EVERY_S)

    def _standing(self) -> tuple[int, bool, float | None, int]:
        """Return what changes as long as something goes on."""
        watch = self.watch
        return watch.missing, watch.is_working, watch.share, len(watch.happened)

    def _is_over(self, unchanged_s: float) -> bool:
        watch = self.watch
        if watch.is_working:
            return False
        # What was done last may not show yet.
        patience_s = QUIET_S if watch.missing and not watch.has_failed else 2 * LOOK_EVERY_S
        return unchanged_s >= patience_s

    def _give_up(self, now_s: float) -> None:
        load_s = now_s - self._began_s
        self.notes.append(
            f"What goes on in the array was at {_share(self.watch)} when it was no longer waited "
            f"for, {load_s:.0f} s after the sample began."
        )

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                self._do_what_is_due()
                self.watch.look()
                self._ending.wait(self._pause_s())
        except Exception as error:
            self.notes.append(
                f"The watching of the array ended with {type(error).__name__}: {error}"
            )

    def _do_what_is_due(self) -> None:
        while self._failures and not self._load_over.is_set():
            failure = self._failures[0]
            if time.monotonic() < self._began_s + failure.after_s:
                return
            self._failures.pop(0)
            try:
                self._faults.do(failure, self.watch)
            except (SeatrialError, OSError) as error:
                self.watch.note("fault_failed", failure.leg, detail=f"{failure.fault}: {error}")
                self.notes.append(f"{failure.fault} after {failure.after_s:g} s failed: {error}")

    def _pause_s(self) -> float:
        if not self._failures or self._load_over.is_set():
            return LOOK_EVERY_S
        due_s = self._began_s + self._failures[0].after_s - time.monotonic()
        return min(LOOK_EVERY_S, max(0.0, due_s))


def reporting(watcher: Watcher, label: str) -> Callable[[str], None]:
    """Return what tells a watcher how far an array's repair is."""
    return lambda share: watcher.stage(f"Waiting for {label} to be whole again: {share}")


def _share(watch: Watch) -> str:
    return "an unknown share" if watch.share is None else f"{watch.share:.0%}"
