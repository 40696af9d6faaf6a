"""What is broken while a workload goes on: a drive, some sectors, or data that rot in silence."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from seatrial.study.values import Count

AfterSeconds = Annotated[float, Meta(ge=0, le=86_400)]
Place = Annotated[int, Meta(ge=1, le=4096)]

Fault = Literal["fail", "replace", "bad_sectors", "rot", "falter", "drop_writes", "scrub"]


class Failure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault injected into an array during a sample (``fail``, a table or a list of tables).

    Attributes:
        after_s: Seconds from the sample's start.
        fault: ``fail`` (the drive is gone; a spare takes its place where there is one),
            ``replace`` (a drive that was not in use takes the place of the failed one),
            ``bad_sectors`` (reads of some sectors fail, as they do on a worn drive; needs
            ``flaky`` members), ``rot`` (some blocks change in silence), ``falter`` (all requests
            of the drive fail in every other second), ``drop_writes`` (the drive says that writes
            are done, and does not do them; both need ``flaky`` members) or ``scrub`` (the array
            checks all its data).
        member: Which of the active drives of the leg, from 1; no matter to ``scrub``.
        leg: Which leg, from 1.
        sectors: Of ``bad_sectors`` and ``rot``: how many blocks of 4 KiB.
    """

    after_s: AfterSeconds
    fault: Fault = "fail"
    member: Place = 1
    leg: Place = 1
    sectors: Count = 3


Failures = Failure | list[Failure]

STORED_FAULT: Final = "deed"
"""What studies called ``fault`` before 2026-11-23. Stored cells still do: a resume finds its run by
a hash of them."""


def as_stored(failure: Failure) -> dict[str, Any]:
    """Return a failure as plain values, as the specification of a cell has it."""
    plain: dict[str, Any] = msgspec.to_builtins(failure)
    plain[STORED_FAULT] = plain.pop("fault")
    return plain


def with_fault(failing: object) -> object:
    """Return what a study or a stored cell has as ``fail``, its faults under today's key."""
    if isinstance(failing, list):
        return [with_fault(each) for each in failing]
    if isinstance(failing, dict) and STORED_FAULT in failing and "fault" not in failing:
        return {"fault" if key == STORED_FAULT else key: each for key, each in failing.items()}
    return failing
