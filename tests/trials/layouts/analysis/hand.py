"""Samples on layouts made of the few values that a test is about."""

from __future__ import annotations

import msgspec

from seatrial.findings.summary import summarise, summarise_cell
from seatrial.results.model import ArrayEvent, LayoutRecord, Outcome, Series, Verification
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.units import MIB
from stats.builders import cell_of as plain_cell
from stats.builders import run_of
from stats.builders import sample_of as builders_sample
from stats.timed import timed_sample

LAB = {"machine": {"lab": "user-mode Linux"}}


def spec_of(level="raid5", drives=4, label=None, **changes):
    label = label or f"{level}-{drives}"
    return LayoutSpec(label=label, name=level, backend=changes.pop("backend", "md"), level=level,
                      drives=drives, **changes)  # fmt: skip


def cell_of(spec, *, operation="write", block_size_bytes=4096, address="random", target=None,
            fail=(), **rest):  # fmt: skip
    """A cell as the plan of a study of several layouts makes it."""
    cell = plain_cell(
        target=target or spec.label,
        operation=operation,
        block_size_bytes=block_size_bytes,
        address=address,
        factors={"pattern": address} | rest.pop("factors", {}),
        **rest,
    )
    return msgspec.structs.replace(cell, spec=cell.spec | {"fail": list(fail)}) if fail else cell


def work_of(reads=0, writes=0, *, size_bytes=4096, busy_ns=0, flushes=0):
    return {
        "reads": float(reads),
        "writes": float(writes),
        "flushes": float(flushes),
        "read_bytes": float(reads * size_bytes),
        "write_bytes": float(writes * size_bytes),
        "busy_ns": float(busy_ns),
    }


def drives_of(spec):
    """The roles of a layout's drives, by path."""
    roles, number = {}, 0
    for leg in range(1, spec.legs + 1):
        for role, count in ((f"leg {leg}", spec.drives), (f"spare of leg {leg}", spec.spares)):
            for _ in range(count):
                roles[f"/dev/d{number}"] = role
                number += 1
    return roles


def record_of(spec, *, members=None, events=(), **changes):
    usual = {
        "layout": msgspec.to_builtins(spec),
        "device": "/dev/md/trial",
        "built_s": 1.0,
        "usable_bytes": int(spec.data_members * 256 * MIB),
        "roles": drives_of(spec),
    }
    return LayoutRecord(
        **usual | {"members": members or {}, "events": [*events]} | changes,
    )


def event(at_s, what, *, leg=1, member="/dev/d1", missing=None):
    member = member if what == "failed" else ""
    return ArrayEvent(at_s=at_s, what=what, leg=leg, member=member, missing=missing)


def sample_of(spec, cell=None, *, counts=None, per_slice=20, slices=30, members=None, events=(),
              record=None, failed=0, checked=None, corrupt=0, shares=None, **rest):  # fmt: skip
    """A sample of slices of 100 ms; ``counts`` holds what each of them completed."""
    cell = cell or cell_of(spec)
    counts = counts if counts is not None else [per_slice] * slices
    sample = timed_sample(counts, cell, **rest)
    changes = {"layout": record or record_of(spec, members=members, events=events)}
    if failed:
        reported = msgspec.structs.asdict(sample.outcome)
        reported |= {"failed": failed, "offered": reported["offered"] + failed}
        changes |= {"outcome": Outcome(**reported), "errors_count": failed}
    if checked is not None:
        changes["verification"] = Verification(checked_blocks=checked, corrupt_blocks=corrupt)
    if shares is not None:
        changes["series"] = Series(period_s=0.2, columns={"rebuild_share": shares})
    return msgspec.structs.replace(sample, **changes)


def rounds_of(spec, rates, cell=None, **rest):
    """A cell's samples, one round for each rate (completions in a slice of 100 ms)."""
    return [
        sample_of(spec, cell, per_slice=rate, round=number, **rest)
        for number, rate in enumerate(rates)
    ]


def summary_of(*samples):
    return summarise_cell(samples)


def of_run(*samples, before=None, study=None):
    """Everything that is reported of a run."""
    return summarise(run_of(before=before, study=study), samples)


def kinds(summary):
    return [finding.kind for finding in summary.findings]


def finding_of(summary, kind):
    (found,) = [each for each in summary.findings if each.kind == kind]
    return found


def quick_rounds(spec, per_s, cell=None, *, first_round=0):
    """A cell's samples without a timeline: only their rates count; one round for each."""
    cell = cell or cell_of(spec)
    return [
        msgspec.structs.replace(
            plain_sample(cell, completed=max(1, round(rate)), latency_ns=1000, round=number),
            layout=record_of(spec),
        )
        for number, rate in enumerate(per_s, first_round)
    ]


def plain_sample(cell, *, completed, latency_ns, round):  # noqa: A002
    """A sample of a second of which only the count matters, made without its histogram's cost."""
    one = builders_sample(cell, completed=1, latency_ns=latency_ns, round=round)
    reported = Outcome(
        offered=completed, completed=completed, failed=0, late_skipped=0, in_flight_at_end=0
    )
    kind = one.operations[cell.operation]
    moved = msgspec.structs.replace(
        kind, completed=completed, transferred_bytes=completed * cell.block_size_bytes
    )
    return msgspec.structs.replace(one, outcome=reported, operations={cell.operation: moved})


def striped_legs():
    """A layout whose two legs are targets of their own."""
    return spec_of("raid0", 1, label="legs", legs=2, expose="legs")
