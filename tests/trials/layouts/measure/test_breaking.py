"""FaultInjector injected at their time during a load, by a thread that never outlives it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from seatrial.errors import TargetError
from seatrial.study.layouts.layout import Failure
from seatrial.trials.layouts.build.backend import ArrayState
from seatrial.trials.layouts.measure import faults as faults_module
from seatrial.trials.layouts.measure.faults import FaultInjection
from seatrial.trials.layouts.measure.watch import ArrayWatch

SOON = Failure(after_s=0.1)
LATER = Failure(after_s=0.3, fault="scrub")
NEVER = Failure(after_s=60, fault="replace")


class Fake:
    """An array whose state a test sets, and what was done to it when."""

    def __init__(self, error: Exception | None = None) -> None:
        self.state = ArrayState()
        self.prepared: list[Failure] = []
        self.done: list[tuple[float, str]] = []
        self.began_s = 0.0
        self._error = error

    def prepare(self, failures: Sequence[Failure]) -> None:
        self.prepared = list(failures)

    def do(self, failure: Failure, watch: ArrayWatch) -> None:
        if self._error:
            raise self._error
        self.done.append((time.monotonic() - self.began_s, failure.fault))
        watch.note("failed", failure.leg)


def begun(fake: Fake, *failures: Failure) -> FaultInjection:
    return FaultInjection(failures, fake, ArrayWatch(1, lambda _leg: fake.state))


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "injection"]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert threads() == []


def start(injection: FaultInjection, fake: Fake) -> None:
    fake.began_s = time.monotonic()
    injection.begin()


def test_the_last_reading_of_the_array_is_after_the_thread_has_ended():
    fake, alive = Fake(), []
    watch = ArrayWatch(1, lambda _leg: alive.append(threads()) or fake.state)
    with FaultInjection([NEVER], fake, watch) as injection:
        start(injection, fake)
        time.sleep(0.3)
        injection.load_ended()
    assert ["injection"] in alive
    assert alive[-1] == []


def test_faults_are_injected_at_their_time_and_none_after_the_load():
    fake = Fake()
    with begun(fake, SOON, LATER, NEVER) as injection:
        assert fake.prepared == [SOON, LATER, NEVER]
        start(injection, fake)
        time.sleep(0.6)
        injection.load_ended()
    assert [fault for _, fault in fake.done] == ["fail", "scrub"]
    for (did_s, _), failure in zip(fake.done, (SOON, LATER), strict=True):
        assert failure.after_s <= did_s < failure.after_s + 0.25
    assert injection.notes == ["replace after 60 s was not injected: the load had ended."]


def test_an_array_that_nothing_is_done_to_has_no_thread():
    fake = Fake()
    with begun(fake) as injection:
        start(injection, fake)
        assert threads() == []
        injection.settle(print)
    assert (fake.done, injection.notes) == ([], [])


def test_a_fault_that_cannot_be_injected_is_an_event_and_a_note():
    fake = Fake(TargetError(seen="It is busy.", cause="Who knows.", next_step="Wait."))
    with begun(fake, SOON) as injection:
        start(injection, fake)
        time.sleep(0.4)
    (event,) = injection.watch.events(fake.began_s)
    assert (event.what, event.leg) == ("fault_failed", 1)
    assert "It is busy" in event.detail
    assert "fail after 0.1 s failed" in injection.notes[0]


def test_a_defect_of_the_thread_is_reported():
    fake = Fake(ZeroDivisionError("what nobody expects"))
    with begun(fake, SOON) as injection:
        start(injection, fake)
        time.sleep(0.4)
        injection.settle(print)
    assert "ZeroDivisionError: what nobody expects" in injection.notes[0]


def interrupted(injection: FaultInjection, fake: Fake) -> None:
    with injection:
        start(injection, fake)
        assert threads() == ["injection"]
        raise KeyboardInterrupt


def test_an_interrupt_of_the_load_ends_the_thread():
    fake = Fake()
    injection = begun(fake, NEVER)
    with pytest.raises(KeyboardInterrupt):
        interrupted(injection, fake)
    assert injection.notes[0].startswith("replace after 60 s was not injected")


def settled_s(fake: Fake, injection: FaultInjection, reported: list[str]) -> float:
    start(injection, fake)
    time.sleep(0.3)
    injection.load_ended()
    began_s = time.monotonic()
    injection.settle(reported.append)
    return time.monotonic() - began_s


def test_a_rebuild_is_waited_for_to_its_end():
    fake, reported = Fake(), []
    fake.state = ArrayState(missing=1, operation="rebuild", share=0.42)
    timer = threading.Timer(1.0, lambda: setattr(fake, "state", ArrayState()))
    timer.start()
    with begun(fake, SOON) as injection:
        waited_s = settled_s(fake, injection, reported)
    assert 0.5 < waited_s < 2.5
    assert reported[0] == "42%"
    assert [each.what for each in injection.watch.timed_events][-1] == "rebuild_ended"
    assert injection.notes == []


def test_an_array_without_a_spare_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(faults_module, "IDLE_S", 0.5)
    fake = Fake()
    fake.state = ArrayState(missing=1)
    with begun(fake, SOON) as injection:
        assert settled_s(fake, injection, []) < 2
    assert injection.notes == []


def test_a_rebuild_that_stands_still_is_given_up(monkeypatch):
    monkeypatch.setattr(faults_module, "NO_PROGRESS_S_MAX", 0.5)
    fake = Fake()
    fake.state = ArrayState(missing=1, operation="rebuild", share=0.1)
    with begun(fake, SOON) as injection:
        assert settled_s(fake, injection, []) < 2
    assert "was 10% complete when the wait for it ended" in injection.notes[0]
