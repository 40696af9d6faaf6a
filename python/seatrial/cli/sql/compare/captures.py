"""Captures as sides of a comparison: traces, logs, access logs, snapshots."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from seatrial import _core
from seatrial.cli.sql.errors import native_errors
from seatrial.cli.sql.reading import Wanted, read_logs
from seatrial.errors import UsageError
from seatrial.importers.access_log import AccessLog
from seatrial.importers.statements import Snapshot
from seatrial.machine.file import TrialFolder
from seatrial.machine.marker import new_run_id
from seatrial.machine.undo import UndoJournal
from seatrial.stats.wording import format_count, format_plural
from seatrial.trials.replay.compare.entered import CallTimeline, Entrant, Named, Unit
from seatrial.trials.replay.compare.model import CallFigures, ServerWork
from seatrial.trials.replay.study.trace_facts import trace_facts

US_PER_S: Final = 1e6
PAGES_NAMED: Final = 3
UNTIMED_SHARE_MAX: Final = 0.05


class _Query(msgspec.Struct, frozen=True, kw_only=True):
    """A query of a trace's course (crates/trace/src/mix/course.rs)."""

    hash: str
    text: str
    kind: str = msgspec.field(name="class")
    calls: int
    timed: int
    total_us: int
    errors: int
    course: list[tuple[int, int, int]]


class _Others(msgspec.Struct, frozen=True, kw_only=True):
    calls: int


class _TraceTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """How a trace went (crates/trace/src/mix/course.rs)."""

    first_us: int | None
    last_us: int | None
    slice_us: int
    slices: int
    statements: int
    timed: int
    queries: list[_Query]
    others: _Others


def of_log(reference: str, paths: Sequence[Path], *, quiet: bool) -> Entrant:
    """Return a log that is no trace yet, in one file or several: read into one that goes away.

    Raises:
        SeatrialError: when it is no log, or knows no durations.
    """
    run_id = new_run_id()
    place = Path(tempfile.gettempdir())
    with UndoJournal(run_id) as journal, TrialFolder(place, run_id, journal) as folder:
        trace = folder.open(0, direct=False).file("log.trace")
        read_logs(Wanted(logs=tuple(paths), output=trace), quiet=quiet)
        return of_trace(reference, trace)


def of_trace(reference: str, trace: Path) -> Entrant:
    """Return a trace as a side.

    Raises:
        UsageError: when it is no trace, or knows no durations.
    """
    with native_errors():
        reported = msgspec.json.decode(_core.trace_course(trace), type=_TraceTimeline)
    if not reported.timed or reported.first_us is None or reported.last_us is None:
        raise UsageError(
            seen=f"{reference} knows no durations",
            cause="It was logged with log_statement, which tells only when statements began",
            next_step="Log with log_min_duration_statement = 0, see docs/sql.md; or replay it on "
            "both servers and compare the replays",
        )
    queries = [query for query in reported.queries if query.timed]
    unit = Unit(
        number=0,
        measured={
            query.hash: CallFigures(
                calls=query.timed, total_s=query.total_us / US_PER_S, errors=query.errors
            )
            for query in queries
        },
        begin_s=reported.first_us / US_PER_S,
        covered_s=(reported.last_us - reported.first_us) / US_PER_S,
        timeline=CallTimeline(
            slice_s=reported.slice_us / US_PER_S,
            slices=reported.slices,
            calls={q.hash: {at: float(calls) for at, calls, _ in q.course} for q in queries},
            total_s={q.hash: {at: us / US_PER_S for at, _, us in q.course} for q in queries},
        ),
    )
    is_wire = _is_wire(trace)
    untimed = reported.statements - reported.timed
    warnings = []
    if untimed > UNTIMED_SHARE_MAX * reported.statements:
        warnings.append(
            f"{format_count(untimed)} of {format_count(reported.statements)} statements of "
            f"{reference} have no duration: they are not compared. A threshold such as "
            "log_min_duration_statement = 100ms logs the slow ones only."
        )
    if reported.others.calls:
        warnings.append(
            f"{format_count(reported.others.calls)} statements of {reference} are of queries that "
            "were too many to be told apart: they are not compared."
        )
    return Entrant(
        name=reference,
        kind="log",
        clock="client" if is_wire else "server",
        detail="captured on the way to the server" if is_wire else "",
        units=[unit],
        named={query.hash: Named(query.text, query.kind) for query in queries},
        warnings=warnings,
    )


def _is_wire(trace: Path) -> bool:
    """Tell whether a trace is of `seatrial sql capture`, which has the clients' times."""
    facts = trace_facts(trace)
    return facts is not None and facts.is_wire


def of_access_log(reference: str, log: AccessLog) -> Entrant:
    """Return an access log as a side."""
    known = log.begin_s is not None and log.end_s is not None
    unit = Unit(
        number=0,
        measured={
            pattern: CallFigures(calls=page.calls, total_s=page.total_s, errors=page.errors)
            for pattern, page in log.pages.items()
        },
        begin_s=log.begin_s,
        covered_s=(log.end_s or 0.0) - (log.begin_s or 0.0) if known else None,
        timeline=None
        if not log.slices
        else CallTimeline(
            slice_s=log.slice_s,
            slices=log.slices,
            calls={
                pattern: {at: float(calls) for at, calls in page.slice_calls.items()}
                for pattern, page in log.pages.items()
            },
            total_s={pattern: page.slice_total_s for pattern, page in log.pages.items()},
        ),
    )
    return Entrant(
        name=reference,
        kind="web",
        clock="server",
        units=[unit],
        named={pattern: Named(pattern, "page") for pattern in log.pages},
        detail=f"time from {log.time_source}{_left_out(log)}",
        warnings=list(_of_lines(reference, log)),
    )


def errors_alone(names: Sequence[str], logs: Sequence[AccessLog]) -> list[str]:
    """Return a warning where the second of two logs has errors alone of what the first served."""
    pages, failed = logs[0].pages, logs[1].only_errors
    found = [pattern for pattern in pages if pattern in failed]
    if not found:
        return []
    reported = [
        f"{each} ({format_plural(failed[each], 'request')})" for each in found[:PAGES_NAMED]
    ]
    more = len(found) - PAGES_NAMED
    further = f" and {format_count(more)} more" if more > 0 else ""
    return [
        f"{format_plural(len(found), 'page')} that {names[0]} served returned errors alone (status "
        f"400 and above) in {names[1]}, and can not be compared: {', '.join(reported)}{further}."
    ]


def _left_out(log: AccessLog) -> str:
    """Return what is in the log and in no page, as further phrases."""
    reported = ""
    if log.static:
        reported += f", {format_plural(log.static, 'request')} of static files left out"
    if log.only_errors:
        pages = format_plural(len(log.only_errors), "page")
        reported += f", {pages} with errors alone left out"
    return reported


def _of_lines(reference: str, log: AccessLog) -> Iterator[str]:
    if log.unread:
        yield (
            f"{format_count(log.unread)} of {format_plural(log.lines, 'line')} of {reference} are "
            "no request that can be read."
        )
    if log.untimed:
        yield f"{format_plural(log.untimed, 'request')} of {reference} had no time."
    if log.others:
        yield (
            f"{format_plural(log.others, 'request')} of {reference} are of patterns that were too "
            "many to be told apart: they are not compared."
        )


def of_snapshot(reference: str, snapshot: Snapshot, span_s: float | None, lost: int) -> Entrant:
    """Return a snapshot as a side; its statements joined by their fingerprints.

    Args:
        reference: What the user calls it.
        snapshot: What was counted.
        span_s: The time in which it was; None where that is not known.
        lost: Statements whose counters were reset or let go meanwhile.

    Raises:
        UsageError: when there is no statement in it.
    """
    sums: dict[str, list[float]] = {}
    work: dict[str, dict[str, int | None]] = {}
    named: dict[str, Named] = {}
    for statement in snapshot.statements.values():
        key, text, kind, _ = _core.fingerprint_sql(statement.query)
        named[key] = Named(text, kind)
        own = sums.setdefault(key, [0.0, 0.0])
        own[0] += statement.calls
        own[1] += statement.exec_s + statement.plan_s
        counters = work.setdefault(key, {"blocks_hit": 0, "blocks_read": 0, "wal_bytes": 0})
        for name, held in counters.items():
            value = getattr(statement, name)
            counters[name] = None if held is None or value is None else held + value
    if not sums:
        raise UsageError(
            seen=f"{reference} holds no statement",
            cause="Nothing was executed since it was reset, or their texts may not be read",
            next_step="Read it as a role that has pg_read_all_stats",
        )
    warnings = []
    if lost:
        warnings.append(
            f"Counters of {format_plural(lost, 'statement')} of {reference} were reset, or let go, "
            "between its snapshots: what they had counted before that is lost."
        )
    return Entrant(
        name=reference,
        kind="statements",
        clock="server",
        units=[
            Unit(
                number=0,
                measured={
                    key: CallFigures(calls=calls, total_s=total_s)
                    for key, (calls, total_s) in sums.items()
                },
                covered_s=span_s,
            )
        ],
        named=named,
        detail=f"{format_plural(snapshot.nested, 'statement')} inside functions left out, as part "
        "of the calls"
        if snapshot.nested
        else "",
        server={
            key: _work(int(calls), total_s, work[key]) for key, (calls, total_s) in sums.items()
        },
        warnings=warnings,
    )


def _work(calls: int, total_s: float, counters: Mapping[str, int | None]) -> ServerWork:
    share = {
        name: None if value is None or not calls else value / calls
        for name, value in counters.items()
    }
    return ServerWork(calls=calls, exec_s=total_s / calls if calls else None, **share)
