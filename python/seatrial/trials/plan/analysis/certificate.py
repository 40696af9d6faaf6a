"""Promised against delivered, and the price of what was sustained: one page about one run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from seatrial.catalogue.units import HOURS_PER_MONTH, Money
from seatrial.published import Amount, one_of
from seatrial.stats.estimate import Estimate
from seatrial.topic import without_preparation
from seatrial.trials.loadline.analysis.model import load_lines_of
from seatrial.trials.plan.analysis.caps import Cap

if TYPE_CHECKING:
    from seatrial.findings.model import Summary
    from seatrial.stats.model import CellSummary

REACHED_SHARE: Final = 0.97
"""A promise is kept if the interval of the delivered rate reaches this share of it."""
EXCEEDED_SHARE: Final = 1.1
"""A larger share is not the rented performance, but credits or a cache."""
MILLION: Final = 1_000_000
SECONDS_PER_MONTH: Final = HOURS_PER_MONTH * 3600
DATA: Final = ("read", "write", "mixed")
OF_DATABASES: Final = ("transaction", "statement", "batch", "commit")


class PromiseCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A promise, and the delivered rate.

    Attributes:
        cap: The promise.
        delivered: Highest rate of any test of the run.
        cell: That test.
        verdict: Whether it was kept; ``not tested`` if blocks of the tests' sizes reach another
            promise first.
        block_size_bytes: Block size that would test it; None if it was tested.
    """

    cap: Cap
    delivered: Estimate
    cell: str
    verdict: Annotated[str, one_of("kept", "not reached", "exceeded", "not tested")]
    block_size_bytes: Amount | None = None


class SustainedRate(msgspec.Struct, frozen=True, kw_only=True):
    """A sustained rate, and its price.

    Attributes:
        what: Such as ``transactions`` or ``requests``.
        cell: The test.
        rate: Rate per second.
        p99: 99th percentile of its response times; None if unknown.
        per_million: Price of a million, from the interval's ends, or from 0 if ``rate`` is only a
            lower bound; None without a price, and if more than the promise was delivered, which
            does not last.
    """

    what: str
    cell: str
    rate: Estimate
    p99: Estimate | None
    per_million: Money | None


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """One page about one run.

    Attributes:
        run: Its id.
        command: Command that repeats it.
        promises: Each promise with what was delivered; empty where nothing was promised.
        sustained: Sustained rates, the most important first.
        month: Price of the storage a month; None if unknown.
        month_origin: Source of that price.
        rounds: Rounds of the test with the fewest.
        warnings: Findings of the run that weaken it, in a sentence each.
    """

    run: str
    command: str
    promises: list[PromiseCheck]
    sustained: list[SustainedRate]
    month: Money | None
    month_origin: str
    rounds: Amount
    warnings: list[str]


def certificate_of(
    summary: Summary, promises: Sequence[Cap], month: Money | None, month_origin: str
) -> Certificate:
    """Return the certificate of a run.

    Args:
        summary: The run.
        promises: What was promised of its storage.
        month: What that costs a month.
        month_origin: Where the price is from.
    """
    measured = without_preparation([each for each in summary.cells if not each.blank])
    kept = [found for cap in promises if (found := _delivered(cap, promises, measured)) is not None]
    lasts = all(each.verdict != "exceeded" for each in kept)
    return Certificate(
        run=summary.run.id,
        command=summary.run.command,
        promises=kept,
        sustained=_sustained(summary, measured, month if lasts else None),
        month=month,
        month_origin=month_origin,
        rounds=min((len(each.samples) for each in measured), default=0),
        warnings=[each.sentence for each in summary.findings if each.severity != "note"],
    )


def _delivered(
    cap: Cap, promises: Sequence[Cap], cells: Sequence[CellSummary]
) -> PromiseCheck | None:
    """Return what was delivered of a promise; None where no test could show it."""
    found = [
        (each.bandwidth if cap.quantity == "throughput" else each.iops, each)
        for each in cells
        if each.cell.operation in ((cap.operation,) if cap.operation else DATA)
    ]
    if not found:
        return None
    most, cell = max(found, key=lambda pair: pair[0].value)
    low = most.low if most.low is not None else most.value
    high = most.high if most.high is not None else most.value
    verdict = "kept" if high >= REACHED_SHARE * cap.per_s else "not reached"
    if low > EXCEEDED_SHARE * cap.per_s:
        verdict = "exceeded"
    size_bytes = None
    if verdict == "not reached":
        size_bytes = _size_needed_bytes(cap, promises, [each for _, each in found])
    return PromiseCheck(
        cap=cap,
        delivered=most,
        cell=cell.cell.key,
        verdict=verdict if size_bytes is None else "not tested",
        block_size_bytes=size_bytes,
    )


def _size_needed_bytes(
    cap: Cap, promises: Sequence[Cap], cells: Sequence[CellSummary]
) -> int | None:
    """Return a block size that would test a promise; None if that of any test does.

    At other sizes, the other quantity reaches its promise first: 1,000 IOPS of 8 KiB are 8 MB/s.
    """
    is_of_bytes = cap.quantity == "throughput"
    both_reached_bytes = 0.0
    for each in cells:
        others = [
            other.per_s
            for other in promises
            if other.quantity != cap.quantity and other.operation in ("", each.cell.operation)
        ]
        if not others or not each.iops.value or not each.bandwidth.value:
            return None
        both_reached_bytes = cap.per_s / min(others) if is_of_bytes else min(others) / cap.per_s
        size_bytes = each.bandwidth.value / each.iops.value
        ratio = size_bytes / both_reached_bytes
        if (ratio if is_of_bytes else 1 / ratio) >= REACHED_SHARE:
            return None
    exponent = math.log2(both_reached_bytes)
    return int(2 ** (math.ceil(exponent) if is_of_bytes else math.floor(exponent)))


def _sustained(
    summary: Summary, cells: Sequence[CellSummary], month: Money | None
) -> list[SustainedRate]:
    lines = [
        SustainedRate(
            what=f"requests with {line.percentile} within its limit",
            cell=line.cell,
            rate=line.sustained,
            p99=None,
            per_million=price_per_million(month, line.sustained),
        )
        for line in load_lines_of(summary)
        if line.sustained is not None
    ]
    of_database = [each for each in cells if each.cell.operation in OF_DATABASES]
    others = (
        of_database
        or sorted(
            (each for each in cells if each.cell.operation in DATA),
            key=lambda each: -each.iops.value,
        )[:1]
    )
    rows = [
        SustainedRate(
            what=f"{each.cell.operation}s" if each in of_database else "requests",
            cell=each.cell.key,
            rate=each.iops,
            p99=next((known.get("p99") for known in each.latency.values()), None),
            per_million=price_per_million(month, each.iops),
        )
        for each in others
    ]
    return [*lines, *rows]


def price_per_million(month: Money | None, rate: Estimate) -> Money | None:
    """Return what a million cost, if that rate goes on for a month; None where it is not known."""
    if month is None or rate.value <= 0:
        return None

    def at(money: float, per_s: float) -> float:
        return money / (per_s * SECONDS_PER_MONTH) * MILLION

    least = rate.low if rate.low else rate.value
    most = rate.high if rate.high else rate.value
    low = 0.0 if rate.is_lower_bound else at(month.low, most)
    return Money(low, at(month.mid, rate.value), at(month.high, least), month.currency)
