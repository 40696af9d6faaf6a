"""Headroom: the current load of a disk relative to its measured load line.

Utilisation (``%util``) is meaningless for a disk that serves several requests in parallel. A load
line has the highest rate at which a percentile of the latency kept its limit, for one mix and size
of requests. For another mix or size no share is given.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import (
    format_first,
    format_iops,
    format_share,
    format_value,
    half_width_of,
)
from seatrial.study.units import format_size
from seatrial.trials.loadline.analysis.narrative import exact_duration
from seatrial.trials.watch.analysis.activity import (
    Interval,
    RequestGroup,
    broken_down,
    size_class_bytes,
)

MIX_MAX: Final = 0.1
"""Maximum difference of the share of reads for a comparable load."""

SIZE_SHARE_MIN: Final = 0.8
"""Minimum share of requests of the line's size class for a comparable load."""

MEAN_SIZE_FACTOR_MAX: Final = 1.25
"""Maximum ratio of the mean sizes for a comparable load where only the mean is known."""
_NAMED_MAX: Final = 3
_FLUSHES_ARE_WRITES: Final = "the kernel's counters of the disk count flushes as writes"
_DATA: Final = ("read", "write")


class DiskLoadLine(msgspec.Struct, frozen=True, kw_only=True):
    """A measured load line of an observed disk.

    Attributes:
        disk: Name of the disk in the kernel.
        run: The run that measured it.
        measured_at: Unix time in seconds.
        percentile: Name of the limited percentile.
        limit_ns: Its limit.
        sustained: The highest rate at which it was significantly kept (``IOPS``); None where there
            is none.
        is_undecided: Whether no rate significantly kept the limit, nor the lowest one exceeded it.
        read_share: Share of reads among its requests.
        block_bytes: Size of its requests.
        pattern: Order of the addresses, such as ``random``.
    """

    disk: str
    run: str
    measured_at: float
    percentile: str
    limit_ns: int
    sustained: Estimate | None
    is_undecided: bool = False
    read_share: float
    block_bytes: int
    pattern: str

    @property
    def workload(self) -> str:
        """Its requests, such as ``random reads of 8 KiB``."""
        what = {0.0: "writes", 1.0: "reads"}.get(self.read_share)
        mixed = f"requests, {format_share(self.read_share)} of them reads,"
        return f"{self.pattern} {what or mixed} of {format_size(self.block_bytes)}"

    @property
    def condition(self) -> str:
        """The limit, such as ``p99 below 3 ms``."""
        return f"{self.percentile} below {exact_duration(self.limit_ns)}"

    @property
    def name(self) -> str:
        """The line in words, such as ``load line of 2026-11-21: random reads of 8 KiB``."""
        day = time.strftime("%Y-%m-%d", time.localtime(self.measured_at))
        return f"load line of {day}: {self.workload}"


class DiskLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Reads and writes of a disk in an interval.

    Attributes:
        per_s: Requests per second.
        read_share: Share of reads.
        mean_bytes: Mean size; 0 without requests.
        by_class: Requests of each size class, by its lower end in bytes; None where unknown.
        flushes: Whether there were flushes.
    """

    per_s: float
    read_share: float
    mean_bytes: float
    by_class: dict[int, int] | None
    flushes: bool = False


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """The current load of a disk on its load line.

    Attributes:
        disk: Name of the disk.
        per_s: Current reads and writes per second.
        run: The run that measured the line.
        measured_at: When it began, as Unix time in seconds.
        limit_per_s: The highest rate that significantly kept the percentile; None where none did.
        limit_per_s_low: Lower end of its interval; None where unknown.
        limit_per_s_high: Upper end; None where no measured rate exceeded it.
        share: Share of ``limit_per_s``; None where that is None, or the load is not comparable with
            the line.
        share_low: Share of ``limit_per_s_high``; None where unknown.
        share_high: Share of ``limit_per_s_low``; None where unknown.
        text: All of this as a sentence.
    """

    disk: str
    per_s: float
    run: str
    measured_at: float
    limit_per_s: float | None
    limit_per_s_low: float | None
    limit_per_s_high: float | None
    share: float | None
    share_low: float | None
    share_high: float | None
    text: str


def headroom_of(lines: Sequence[DiskLoadLine], interval: Interval) -> list[Headroom]:
    """Return the headroom of each disk with a load line; of several the most similar is used."""
    found = []
    for disk in dict.fromkeys(each.disk for each in lines):
        load = load_of(disk, interval)
        own = [each for each in lines if each.disk == disk]
        line = min(own, key=lambda each: _distance(each, load))
        found.append(_headroom(line, load))
    return found


def load_of(disk: str, interval: Interval) -> DiskLoad:
    """Return the reads and writes of a disk in an interval."""
    own = [each for each in interval.groups if each.disk == disk and each.operation in _DATA]
    requests = sum(each.requests for each in own)
    reads = sum(each.requests for each in own if each.operation == "read")
    total_bytes = sum(each.transferred_bytes for each in own)
    return DiskLoad(
        per_s=requests / interval.seconds,
        read_share=reads / requests if requests else 0.0,
        mean_bytes=total_bytes / requests if requests else 0.0,
        by_class=_by_class(own),
        flushes=any(e.disk == disk and e.operation == "flush" for e in interval.groups),
    )


def _by_class(groups: Iterable[RequestGroup]) -> dict[int, int] | None:
    found = broken_down(groups, ["length_bytes_min"])
    if any(each.length_bytes_min is None for each in found):
        return None
    return {each.length_bytes_min or 0: each.requests for each in found}


def differences(line: DiskLoadLine, load: DiskLoad) -> list[str]:
    """Return why a load is not comparable with a line, as phrases; empty if it is or is idle."""
    return list(_differences(line, load)) if load.per_s else []


def _differences(line: DiskLoadLine, load: DiskLoad) -> Iterator[str]:
    if abs(load.read_share - line.read_share) > MIX_MAX:
        yield f"{format_share(load.read_share)} of the requests are reads"
    if line.pattern == "sequential":
        yield "a watch does not know which requests are sequential"
    if load.by_class is None:
        factor = max(
            load.mean_bytes / line.block_bytes, line.block_bytes / max(1.0, load.mean_bytes)
        )
        if load.flushes and line.read_share < 1 - MIX_MAX:
            yield _FLUSHES_ARE_WRITES
        elif factor > MEAN_SIZE_FACTOR_MAX:
            yield f"their mean size is {format_size(round(load.mean_bytes))}"
        return
    class_bytes = size_class_bytes(line.block_bytes)
    share = load.by_class.get(class_bytes, 0) / max(1, sum(load.by_class.values()))
    if share < SIZE_SHARE_MIN:
        sizes = f"{format_size(class_bytes)} to {format_size(2 * class_bytes)}"
        yield f"{format_share(share)} are of {sizes}"


def _distance(line: DiskLoadLine, load: DiskLoad) -> tuple[int, float]:
    """Return a key by which a comparable line comes first, then the most similar."""
    reasons = differences(line, load)
    # The first, and so the newest, of comparable lines is used.
    return len(reasons), abs(line.read_share - load.read_share) if reasons else 0.0


def _headroom(line: DiskLoadLine, load: DiskLoad) -> Headroom:
    limit = line.sustained
    reasons = differences(line, load)
    comparable = limit if not reasons else None
    return Headroom(
        disk=line.disk,
        per_s=load.per_s,
        run=line.run,
        measured_at=line.measured_at,
        limit_per_s=limit.value if limit else None,
        limit_per_s_low=limit.low if limit else None,
        limit_per_s_high=limit.high if limit else None,
        share=load.per_s / comparable.value if comparable else None,
        share_low=load.per_s / comparable.high if comparable and comparable.high else None,
        share_high=load.per_s / comparable.low if comparable and comparable.low else None,
        text=f"{line.disk}: {_text(line, load, reasons)}.",
    )


def _text(line: DiskLoadLine, load: DiskLoad, reasons: Sequence[str]) -> str:
    now = f"{format_iops(load.per_s, load.per_s / 100)} IOPS"
    limit = line.sustained
    if limit is None and line.is_undecided:
        return (
            f"{now}, without a share: undecided which rates keep {line.condition} ({line.name}); "
            f"{_command(line, load)} with a longer --budget may decide it"
        )
    if limit is None:
        return f"{now}; no measured rate kept {line.condition} ({line.name})"
    if reasons:
        advice = f"{_command(line, load)} measures a line of such requests"
        if _FLUSHES_ARE_WRITES in reasons:
            advice = "as root, a watch counts them apart"
        return (
            f"{now}, not comparable with {_limit(limit)} that kept {line.condition} "
            f"({line.name}), because {' and '.join(reasons)}; {advice}"
        )
    share = _share(load.per_s, limit)
    return f"{now} of {_limit(limit)} that kept {line.condition}: {share} ({line.name})"


def _limit(limit: Estimate) -> str:
    """Return the limit with its interval, such as ``about 48k (46k to 50k)``."""
    if limit.high is None or limit.low is None:
        return format_value(limit).removesuffix(" IOPS")
    half_width = half_width_of(limit)
    value, low, high = (
        format_iops(each, half_width) for each in (limit.value, limit.low, limit.high)
    )
    return f"about {value} ({low} to {high})"


def _share(per_s: float, limit: Estimate) -> str:
    """Return the share with its interval, such as ``13 % (12 to 14 %)``."""
    if limit.high is None or limit.low is None:
        return f"at most {format_share(per_s / (limit.low or limit.value))}"
    share = format_share(per_s / limit.value)
    low, high = format_share(per_s / limit.high), format_share(per_s / limit.low)
    return share if low == high else f"{share} ({low.removesuffix(' %')} to {high})"


def _command(line: DiskLoadLine, load: DiskLoad) -> str:
    """Return the command that measures a line of requests like the current ones."""
    limit = exact_duration(line.limit_ns).replace("µ", "u").replace(" ", "").replace(",", "")
    mix = f"{load.read_share:.1f}"
    class_bytes = size_class_bytes(round(load.mean_bytes))
    if load.by_class:
        class_bytes = max(load.by_class.items(), key=lambda each: each[1])[0]
    size = format_size(max(512, class_bytes)).replace(" ", "").removesuffix("iB")
    return (
        f"`seatrial loadline TARGET --percentile {line.percentile} --limit {limit} "
        f"--read-share {mix} --block-size {size}`"
    )


def share_phrase(headrooms: Iterable[Headroom]) -> str:
    """Return the shares, such as ``vda at 13 % of its load line``; empty without any."""
    return ", ".join(
        f"{each.disk} at {_share_of(each)} of its load line"
        for each in headrooms
        if each.share is not None
    )


def _share_of(headroom: Headroom) -> str:
    if headroom.share_low is None and headroom.share_high is not None:
        return f"at most {format_share(headroom.share_high)}"
    return format_share(headroom.share or 0.0)


def without_line(disks: Sequence[str], lines: Sequence[DiskLoadLine], results: str) -> str:
    """Return which disks have no load line, and how to measure one; empty where all have one."""
    known = {each.disk for each in lines}
    missing = [each for each in disks if each not in known]
    if not missing:
        return ""
    return (
        f"{results} has no load line for {format_first(missing, _NAMED_MAX)}, so no headroom is "
        "shown: `seatrial loadline TARGET --p99 5ms` measures one."
    )
