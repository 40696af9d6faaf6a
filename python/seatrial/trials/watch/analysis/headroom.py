"""Headroom: the present load of a disk as a point on the load line that was measured of it.

How busy a disk is (``%util``) says nothing about one that serves several requests at once. A load
line says up to which rate a percentile kept its limit, for one mix and size of requests; of another
mix or size, no share of it is given.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from seatrial.stats.estimate import Estimate
from seatrial.stats.wording import format_iops, format_share, half_width_of
from seatrial.study.units import format_size
from seatrial.trials.loadline.analysis.narrative import exact_duration
from seatrial.trials.watch.analysis.activity import (
    Group,
    Interval,
    broken_down,
    size_class_bytes,
)

MIX_MAX: Final = 0.1
"""A load whose share of reads differs by more from the line's is not comparable with it."""
SIZE_SHARE_MIN: Final = 0.8
"""So many of the requests have to be of the line's size, to a factor of two."""
MEAN_SIZE_FACTOR_MAX: Final = 1.25
"""Where only the mean size is known: by how much it may differ."""
_NAMED_MAX: Final = 3
_DATA: Final = ("read", "write")


class DiskLine(msgspec.Struct, frozen=True, kw_only=True):
    """A load line that was measured of a disk which is watched.

    Attributes:
        disk: Name of the disk in the kernel.
        run: The run that measured it.
        measured_at: Unix time in seconds.
        percentile: Name of the percentile that was limited.
        limit_ns: Its limit.
        sustained: The highest rate that kept it (``IOPS``); None where none did.
        read_share: Share of reads among its requests.
        block_bytes: Size of each.
        pattern: Order of the addresses, such as ``random``.
    """

    disk: str
    run: str
    measured_at: float
    percentile: str
    limit_ns: int
    sustained: Estimate | None
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
        """What the percentile was kept below, such as ``p99 below 3 ms``."""
        return f"{self.percentile} below {exact_duration(self.limit_ns)}"

    @property
    def name(self) -> str:
        """The line in words, such as ``load line of 2026-11-21: random reads of 8 KiB``."""
        day = time.strftime("%Y-%m-%d", time.localtime(self.measured_at))
        return f"load line of {day}: {self.workload}"


class DiskLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Reads and writes of a disk in an interval.

    Attributes:
        per_s: How many per second.
        read_share: Share of reads.
        mean_bytes: Mean size; 0 without any.
        by_class: Requests of each class of sizes, by its lower end in bytes; None where unknown.
    """

    per_s: float
    read_share: float
    mean_bytes: float
    by_class: dict[int, int] | None


class Headroom(msgspec.Struct, frozen=True, kw_only=True):
    """The present load of a disk on its load line.

    Attributes:
        disk: Name of the disk.
        per_s: Reads and writes per second, now.
        run: The run that measured the line.
        measured_at: When it began, as Unix time in seconds.
        limit_per_s: The highest rate that kept the percentile; None where none did.
        limit_per_s_low: Lower end of its interval; None where unknown.
        limit_per_s_high: Upper end; None where no measured rate exceeded it.
        share: Of ``limit_per_s``; None where the load is not comparable with the line, or no rate
            kept the percentile.
        share_low: Of ``limit_per_s_high``; None where that is unknown as well.
        share_high: Of ``limit_per_s_low``; likewise.
        text: All of it in a sentence.
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


def headroom_of(lines: Sequence[DiskLine], interval: Interval) -> list[Headroom]:
    """Return the headroom of each disk with a load line; of several the most alike counts.

    Args:
        lines: The lines, the newest first.
        interval: What completed.
    """
    found = []
    for disk in dict.fromkeys(each.disk for each in lines):
        load = load_of(disk, interval)
        own = [each for each in lines if each.disk == disk]
        alike = [each for each in own if not differences(each, load)]
        line = alike[0] if alike else min(own, key=lambda each: _distance(each, load))
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
    )


def _by_class(groups: Iterable[Group]) -> dict[int, int] | None:
    found = broken_down(groups, ["length_bytes_min"])
    if any(each.length_bytes_min is None for each in found):
        return None
    return {each.length_bytes_min or 0: each.requests for each in found}


def differences(line: DiskLine, load: DiskLoad) -> list[str]:
    """Return why a load is not comparable with a line, as phrases; empty where it is.

    Nothing differs where nothing is requested.
    """
    return list(_differences(line, load)) if load.per_s else []


def _differences(line: DiskLine, load: DiskLoad) -> Iterator[str]:
    if abs(load.read_share - line.read_share) > MIX_MAX:
        yield f"{format_share(load.read_share)} of the requests are reads"
    if line.pattern == "sequential":
        yield "a watch does not know which requests are sequential"
    share = _share_alike(line.block_bytes, load)
    if share is None:
        factor = max(
            load.mean_bytes / line.block_bytes, line.block_bytes / max(1.0, load.mean_bytes)
        )
        if factor > MEAN_SIZE_FACTOR_MAX:
            yield f"their mean size is {format_size(round(load.mean_bytes))}"
    elif share < SIZE_SHARE_MIN:
        least_bytes = size_class_bytes(line.block_bytes)
        sizes = f"{format_size(least_bytes)} to {format_size(2 * least_bytes)}"
        yield f"{format_share(share)} are of {sizes}"


def _share_alike(block_bytes: int, load: DiskLoad) -> float | None:
    if load.by_class is None:
        return None
    return load.by_class.get(size_class_bytes(block_bytes), 0) / max(1, sum(load.by_class.values()))


def _distance(line: DiskLine, load: DiskLoad) -> tuple[int, float]:
    return len(differences(line, load)), abs(line.read_share - load.read_share)


def _headroom(line: DiskLine, load: DiskLoad) -> Headroom:
    limit = line.sustained
    unlike = differences(line, load)
    shared = limit if not unlike else None
    return Headroom(
        disk=line.disk,
        per_s=load.per_s,
        run=line.run,
        measured_at=line.measured_at,
        limit_per_s=limit.value if limit else None,
        limit_per_s_low=limit.low if limit else None,
        limit_per_s_high=limit.high if limit else None,
        share=load.per_s / shared.value if shared else None,
        share_low=load.per_s / shared.high if shared and shared.high else None,
        share_high=load.per_s / shared.low if shared and shared.low else None,
        text=f"{line.disk}: {_text(line, load, unlike)}.",
    )


def _text(line: DiskLine, load: DiskLoad, unlike: Sequence[str]) -> str:
    now = f"{_rate(load.per_s)} IOPS"
    limit = line.sustained
    if limit is None:
        return f"{now}; no measured rate kept {line.condition} ({line.name})"
    if unlike:
        command = _command(line, load)
        return (
            f"{now}, not comparable with {_limit(limit)} that kept {line.condition} "
            f"({line.name}), because {' and '.join(unlike)}; {command} measures a line of such "
            "requests"
        )
    share = _share(load.per_s, limit)
    return f"{now} of {_limit(limit)} that kept {line.condition}: {share} ({line.name})"


def _limit(limit: Estimate) -> str:
    """Return the limit with its interval, such as ``about 48k (46k to 50k)``."""
    if limit.high is None or limit.low is None:
        return f"at least {format_iops(limit.low or limit.value)}"
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


def _rate(per_s: float) -> str:
    return format_iops(per_s, per_s / 100)


def _usual_bytes(load: DiskLoad) -> int:
    """Return the size class of most requests; that of their mean where sizes are unknown."""
    if load.by_class:
        return max(load.by_class.items(), key=lambda each: each[1])[0]
    return size_class_bytes(round(load.mean_bytes))


def _command(line: DiskLine, load: DiskLoad) -> str:
    """Return the command that measures a line of requests as they are now."""
    limit = exact_duration(line.limit_ns).replace("µ", "u").replace(" ", "").replace(",", "")
    mix = f"{load.read_share:.1f}"
    size = format_size(max(512, _usual_bytes(load))).replace(" ", "").removesuffix("iB")
    return (
        f"`seatrial loadline TARGET --percentile {line.percentile} --limit {limit} "
        f"--read-share {mix} --block-size {size}`"
    )


def share_words(headrooms: Iterable[Headroom]) -> str:
    """Return the shares in short, such as ``vda at 13 % of its load line``; empty without any."""
    return ", ".join(
        f"{each.disk} at {_share_of(each)} of its load line"
        for each in headrooms
        if each.share is not None
    )


def _share_of(headroom: Headroom) -> str:
    if headroom.share_low is None and headroom.share_high is not None:
        return f"at most {format_share(headroom.share_high)}"
    return format_share(headroom.share or 0.0)


def without_line(disks: Sequence[str], lines: Sequence[DiskLine], results: str) -> str:
    """Return which disks have no load line, and what measures one; empty where all have one."""
    known = {each.disk for each in lines}
    missing = [each for each in disks if each not in known]
    if not missing:
        return ""
    rest = len(missing) - _NAMED_MAX
    names = ", ".join(missing[:_NAMED_MAX]) + (f" and {rest} more" if rest > 0 else "")
    return (
        f"No load line of {names} in {results}, so no headroom is shown: "
        "`seatrial loadline TARGET --p99 5ms` measures one."
    )
