"""JSON documents of ``seatrial sql``: docs/schema/reading.schema.json and trace.schema.json.

As in all documents, times of the clock are Unix time in seconds, and a percentile that too few
statements could know is absent.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from seatrial.cli.sql.model import Reading
from seatrial.cli.sql.trace_model import ClassSums, Name, Query, Spread, Sums, Trace
from seatrial.report.exports.json_document import as_text, document
from seatrial.stats.estimates import entries_needed

US_PER_S: Final = 1e6
PERCENTS: Final = (50, 95, 99)


def reading_document(reading: Reading) -> str:
    """Return what came of reading logs: docs/schema/reading.schema.json."""
    told = msgspec.to_builtins(reading)
    return as_text(document("reading", log_bytes=reading.log_bytes, **told))


def trace_document(shown: Trace) -> str:
    """Return what a trace holds: docs/schema/trace.schema.json."""
    mix, rest = shown.mix, shown.rest
    return as_text(
        document(
            "trace",
            trace=shown.trace,
            trace_bytes=shown.trace_bytes,
            origin={"log_bytes": shown.origin.log_bytes, **msgspec.to_builtins(shown.origin)},
            counts=mix.counts,
            **_course(shown),
            timed=mix.timed,
            total_s=mix.total_us / US_PER_S,
            several=mix.several,
            classes=[_class(each) for each in mix.classes],
            protocols=mix.protocols,
            errors=mix.errors,
            sessions=mix.sessions,
            transactions=_transactions(shown),
            think=_think(shown),
            queries=[_query(each) for each in mix.fingerprints],
            rest={
                "queries": rest.fingerprints,
                "calls": rest.calls,
                "total_s": rest.total_us / US_PER_S,
            },
            databases=[_name(each) for each in mix.names.databases],
            users=[_name(each) for each in mix.names.users],
            applications=[_name(each) for each in mix.names.applications],
        )
    )


def _course(shown: Trace) -> dict[str, Any]:
    """Return what is told by the clock; null and empty where the log has no times."""
    mix, has_clock = shown.mix, shown.has_clock
    busiest = mix.busiest_minute if has_clock else None
    slices = mix.timeline.slices if has_clock else []
    return {
        "started_at": _seconds(mix.first_us) if has_clock else None,
        "ended_at": _seconds(mix.last_us) if has_clock else None,
        "running_mean": mix.running_mean if has_clock and mix.timed else None,
        "busiest_minute": busiest
        and {"start_at": _seconds(busiest.start_us), "statements": busiest.statements},
        "slice_s": mix.timeline.slice_s,
        "slices": [
            {
                "start_at": _seconds(each.start_us),
                "statements": each.statements,
                "sessions_max": each.sessions_max,
            }
            for each in slices
        ],
    }


def _seconds(time_us: int | None) -> float | None:
    return None if time_us is None else time_us / US_PER_S


def _sums(sums: Sums) -> dict[str, Any]:
    return {
        "calls": sums.calls,
        "timed": sums.timed,
        "total_s": sums.total_us / US_PER_S,
        "rows": sums.rows,
        "errors": sums.errors,
        "skipped": sums.skipped,
    }


def _class(sums: ClassSums) -> dict[str, Any]:
    return {"class": sums.kind, **_sums(sums)}


def _query(query: Query) -> dict[str, Any]:
    return {
        "fingerprint": query.hash,
        "text": query.text,
        **_class(query),
        "latency_ns": _spread(query.latency),
    }


def _transactions(shown: Trace) -> dict[str, Any]:
    transactions = shown.mix.transactions
    return {
        "count": transactions.count,
        "statements": transactions.statements,
        "statements_max": transactions.statements_max,
        "statements_outside": transactions.statements_outside,
        "length_ns": _spread(transactions.length) if shown.has_clock else None,
    }


def _think(shown: Trace) -> dict[str, Any]:
    think = shown.mix.think
    return {
        "inside_ns": _spread(think.inside),
        "between_ns": _spread(think.between),
        "unknown": think.unknown,
        "overlapping": think.overlapping,
    }


def _spread(spread: Spread) -> dict[str, Any] | None:
    """Return a distribution; null where no time is known."""
    if not spread.entries:
        return None
    values = {50: spread.p50_ns, 95: spread.p95_ns, 99: spread.p99_ns}
    known = {
        f"p{percent}": values[percent]
        for percent in PERCENTS
        if spread.entries >= entries_needed(percent)
    }
    ends = {"min": spread.min_ns, "mean": spread.mean_ns, "max": spread.max_ns}
    return {"entries": spread.entries, **ends, **known}


def _name(name: Name) -> dict[str, Any]:
    return {
        "name": name.name,
        "sessions": name.sessions,
        "statements": name.statements,
        "total_s": name.total_us / US_PER_S,
    }
