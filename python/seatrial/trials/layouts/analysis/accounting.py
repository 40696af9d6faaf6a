"""Device I/Os for each operation of an array, as counted, beside the rule of its level.

Counted are the requests and bytes of every drive (/proc/diskstats) while a sample lasted, over the
operations that completed in it: a ratio for each round, with an interval over the rounds. What
the file system, the bitmap and the array's own metadata write beside is part of what is counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from seatrial.findings.context import entries, lookup
from seatrial.results.model import Sample
from seatrial.stats.broken import is_broken
from seatrial.stats.estimate import Estimate
from seatrial.stats.estimates import counted, estimate_of_rounds
from seatrial.stats.model import CellSummary
from seatrial.study.cell import Cell
from seatrial.study.layouts.layout import LayoutSpec
from seatrial.trials.database.study.workloads import is_of_database
from seatrial.trials.layouts.analysis.model import Accounting, MemberWork, Rule
from seatrial.trials.layouts.analysis.phases import Span, spans_within
from seatrial.trials.layouts.analysis.rules import full_stripe_bytes, read_rule, write_rule
from seatrial.trials.layouts.analysis.samples import layout_of, leg_of, variant

COMPLETED_MIN: Final = 100
"""Fewer operations of a round say little beside what the array writes of its own accord."""
PER: Final = {"mixed": "request"}
LEG: Final = "leg"

Members = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Counted:
    """What one sample tells of the drives."""

    sample: Sample
    members: Members

    @property
    def operations(self) -> int:
        """Operations that completed."""
        return self.sample.outcome.completed

    @property
    def moved_bytes(self) -> int:
        """Bytes that they moved, of the array's own."""
        return sum(part.transferred_bytes for part in self.sample.operations.values())

    def total(self, name: str) -> float:
        """Return a counter's sum over all drives."""
        return math.fsum(drive.get(name, 0.0) for drive in self.members.values())


def accounting(cells: Sequence[CellSummary]) -> list[Accounting]:
    """Return what the drives did, of every cell of which that is known."""
    found = (accounting_of(summary) for summary in cells)
    return [each for each in found if each]


def accounting_of(summary: CellSummary) -> Accounting | None:
    """Return what the drives did in one cell; None where their counters are not known.

    Cells that break something are left out, but for reads without a drive that nothing rebuilds:
    else the rebuild's own traffic would be counted for the workload's.
    """
    spec = layout_of(summary)
    if spec is None:
        return None
    parts = [part for s in counted(summary.samples) if (part := _counted(s, spec))]
    shares = [share for part in parts if (share := _degraded_share(part.sample)) is not None]
    if not parts or len(shares) < len(parts):
        return None
    cell, degraded_share = summary.cell, math.fsum(shares) / len(shares)
    has_bytes = all(part.moved_bytes for part in parts) and not is_of_database(cell)
    return Accounting(
        cell=cell,
        variant=variant(spec, cell.target),
        per=PER.get(cell.operation, cell.operation),
        reads=_for_each(parts, "reads"),
        writes=_for_each(parts, "writes"),
        flushes=_for_each(parts, "flushes"),
        read_bytes=_for_each_byte(parts, "read_bytes") if has_bytes else None,
        write_bytes=_for_each_byte(parts, "write_bytes") if has_bytes else None,
        rule=rule_of(cell, spec, degraded_share),
        members=_members(parts),
        degraded_share=degraded_share,
    )


def rule_of(cell: Cell, spec: LayoutSpec, degraded_share: float = 0.0) -> Rule | None:
    """Return what the level asks for one operation of a cell; None where that is not known.

    Known is it of reads and of writes past the page cache, of one size, at random places, and of
    writes in sequence that are whole stripes. Other sequences meet in the array's stripe cache.
    """
    accesses = entries(cell.spec, "accesses")
    places = {lookup(access, "address", "kind") for access in accesses}
    is_direct = lookup(cell.spec, "target", "direct") is True
    size_bytes = cell.block_size_bytes
    if len(places) != 1 or not is_direct or not size_bytes or cell.spec.get("sync_every"):
        return None
    align_bytes = int(min(access.get("align_bytes") or size_bytes for access in accesses))
    if cell.operation == "read" and places == {"random"}:
        return read_rule(spec, size_bytes, align_bytes, degraded_share)
    if cell.operation != "write" or degraded_share:
        return None
    if places == {"random"}:
        return write_rule(spec, size_bytes, align_bytes)
    is_whole = bool(spec.facts.parity_members) and size_bytes % full_stripe_bytes(spec) == 0
    return (
        write_rule(spec, size_bytes, size_bytes) if places == {"sequential"} and is_whole else None
    )


def _counted(sample: Sample, spec: LayoutSpec) -> Counted | None:
    """Return a sample's counters, of the drives of its own leg where that is a target."""
    record = sample.layout
    if record is None or sample.outcome.completed < COMPLETED_MIN:
        return None
    leg = leg_of(spec, sample.cell.target)
    members = {
        drive: work
        for drive, work in record.members.items()
        if not leg or _is_of_leg(record.roles.get(drive, ""), leg)
    }
    return Counted(sample, members) if members else None


def _is_of_leg(role: str, leg: int) -> bool:
    return role in (f"{LEG} {leg}", f"spare of {LEG} {leg}")


def _degraded_share(sample: Sample) -> float | None:
    """Return the share of the operations that met a missing drive; None where more went on."""
    if not is_broken(sample):
        return 0.0
    spans = spans_within(sample)
    if sample.cell.operation != "read" or any(_is_repairing(span) for span in spans):
        return None
    whole_s = math.fsum(span.length_s for span in spans)
    missing_s = math.fsum(span.length_s for span in spans if span.phase == "degraded")
    return missing_s / whole_s if whole_s else None


def _is_repairing(span: Span) -> bool:
    return span.phase not in ("before", "degraded")


def _for_each(parts: Sequence[Counted], name: str) -> Estimate:
    return estimate_of_rounds([part.total(name) / part.operations for part in parts], "count")


def _for_each_byte(parts: Sequence[Counted], name: str) -> Estimate:
    return estimate_of_rounds([part.total(name) / part.moved_bytes for part in parts], "ratio")


def _members(parts: Sequence[Counted]) -> list[MemberWork]:
    """Return what each drive did that all rounds know, the legs' own first."""
    roles: dict[str, str] = {}
    for part in parts:
        roles |= part.sample.layout.roles if part.sample.layout else {}
    known = [drive for drive in parts[0].members if all(drive in part.members for part in parts)]
    known.sort(key=lambda drive: (_rank(roles.get(drive, "")), roles.get(drive, "")))
    peers = {drive: [d for d in known if _rank(roles.get(d, "")) == _rank(roles.get(drive, ""))]
             for drive in known}  # fmt: skip
    return [_member(parts, drive, roles.get(drive, ""), peers[drive]) for drive in known]


def _rank(role: str) -> int:
    """Return what kind of role it is: drives of all legs are equals, and so are all spares."""
    kinds = (LEG, "spare", "log", "cache")
    return next((place for place, kind in enumerate(kinds) if role.startswith(kind)), len(kinds))


def _member(parts: Sequence[Counted], drive: str, role: str, peers: Sequence[str]) -> MemberWork:
    def for_each(name: str) -> Estimate:
        values = [part.members[drive].get(name, 0.0) / part.operations for part in parts]
        return estimate_of_rounds(values, "count")

    has_busy = all("busy_ns" in part.members[drive] for part in parts)
    return MemberWork(
        drive=drive,
        role=role,
        reads=for_each("reads"),
        writes=for_each("writes"),
        bytes_ratio=_over_peers(parts, drive, peers, _bytes),
        busy_share=_busy_share(parts, drive) if has_busy else None,
        busy_ratio=_over_peers(parts, drive, peers, lambda work: work.get("busy_ns", 0.0)),
    )


def _bytes(work: Mapping[str, Any]) -> float:
    return float(work.get("read_bytes", 0.0) + work.get("write_bytes", 0.0))


def _busy_share(parts: Sequence[Counted], drive: str) -> Estimate:
    shares = [
        min(1.0, part.members[drive]["busy_ns"] / (part.sample.duration_s * 1e9)) for part in parts
    ]
    return estimate_of_rounds(shares, "share")


def _over_peers(
    parts: Sequence[Counted],
    drive: str,
    peers: Sequence[str],
    figure: Callable[[Mapping[str, float]], float],
) -> Estimate | None:
    """Return a drive's figure over the mean of its peers, itself among them."""
    ratios = []
    for part in parts:
        mean = math.fsum(figure(part.members[each]) for each in peers) / len(peers)
        if mean <= 0:
            return None
        ratios.append(figure(part.members[drive]) / mean)
    return estimate_of_rounds(ratios, "ratio") if len(peers) > 1 else None
