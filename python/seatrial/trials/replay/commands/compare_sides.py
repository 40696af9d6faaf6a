"""From what a user names to the sides of a comparison, each recognised by its content."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from seatrial import _core
from seatrial.cli.files import TRACE_BEGINS
from seatrial.cli.sources import SQLITE_HEAD
from seatrial.errors import UsageError, native_errors
from seatrial.importers.access_log import AccessLog, is_access_log, read_access_log
from seatrial.importers.statements import (
    Snapshot,
    contains,
    covered_s,
    grown,
    is_snapshot,
    read_snapshot,
    snapshot_of,
)
from seatrial.results.model import Run
from seatrial.stats.wording import format_count, format_plural
from seatrial.trials.replay.commands.compare_replays import one_replay, two_replays
from seatrial.trials.replay.commands.read import trace_of_logs
from seatrial.trials.replay.compare.model import (
    CallFigures,
    CallTimeline,
    Clock,
    Entrant,
    Named,
    ServerWork,
    Unit,
)
from seatrial.trials.replay.study.trace_facts import trace_facts
from seatrial.units import US_PER_S

PAGES_NAMED: Final = 3
UNTIMED_SHARE_MAX: Final = 0.05
TRACE_KEY: Final = b"seatrial.trace.version"
"""What the metadata of a trace of SQL have, and no other file's (crates/trace/src/schema.rs)."""
_PARQUET_END_BYTES: Final = 8
"""Length of the metadata and Parquet's sign, at the end of a file."""


class _Query(msgspec.Struct, frozen=True, kw_only=True):
    """A query of a trace over time (crates/trace/src/mix/time_series.rs)."""

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
    """How a trace went (crates/trace/src/mix/time_series.rs)."""

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
    with trace_of_logs(paths, quiet=quiet) as trace:
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
            "were too many to be distinguished: they are not compared."
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
    """Return whether a trace is of `seatrial sql capture`, which has the clients' times."""
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
            "many to be distinguished: they are not compared."
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


PERIOD: Final = ".."
URLS: Final = ("postgresql://", "postgres://")
IN_PIECES: Final = frozenset({"web", "log"})


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be compared.

    Attributes:
        before: The measure.
        after: What is judged.
        control: Before, measured once more; None if absent.
        runs: Names and runs of those sides that come from one.
    """

    before: Entrant
    after: Entrant
    control: Entrant | None = None
    runs: list[tuple[str, Run]] = []


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How sides are read.

    Attributes:
        results: The results file that runs are sought in.
        time_unit_s: Unit of the times in access logs; None to tell it by the log.
        time_column: Their column behind the bytes, from 1; None likewise.
        quiet: Whether no progress is reported.
        anyway: Whether what forbids a comparison of replays becomes a warning.
    """

    results: Path
    time_unit_s: float | None = None
    time_column: int | None = None
    quiet: bool = False
    anyway: bool = False


def sides_of(references: Sequence[str], control: str | None, reading: Reading) -> Sides:
    """Return the sides that a user names.

    Args:
        references: Before and after, or one run with two targets or schemas.
        control: A/A control, another measurement of what before is.
        reading: How they are read.

    Raises:
        SeatrialError: when something cannot be read, or is named twice.
    """
    if len(references) == 1 and _kind(references[0]) != "run":
        raise UsageError(
            seen=f"{references[0]} is one side, and nothing else is named",
            cause="Only a run that has two targets is two sides",
            next_step=f"Name the other, as in `seatrial sql compare {references[0]} AFTER`",
        )
    named = [*references, *([control] if control else [])]
    if len(references) == 1 or all(_kind(each) == "run" for each in named):
        found = two_replays(references, control, reading.results, anyway=reading.anyway)
        return Sides(before=found.before, after=found.after, control=found.control, runs=found.runs)
    kinds = [_kind(each) for each in named]
    if set(kinds) == {"web"}:
        return pages_of(references, control, reading)
    require_distinct(named)
    counted = {
        each: _snapshot(each)
        for each, kind in zip(named, kinds, strict=True)
        if kind in ("snapshot", "url")
    }
    sides = [_entrant(each, reading, counted) for each in named]
    after = with_warnings(sides[1], _of_one_server(references, counted))
    return Sides(before=sides[0], after=after, control=sides[2] if control else None)


def pages_of(references: Sequence[str], control: str | None, reading: Reading) -> Sides:
    """Return access logs as sides.

    Args:
        references: Before and after.
        control: Another log of what before is.
        reading: How they are read.

    Raises:
        UsageError: when one is invalid, is named twice, or does not tell how long a request took.
    """
    named = [*references, *([control] if control else [])]
    require_distinct(named)
    logs = [_access_log(each, reading) for each in named]
    sides = [of_access_log(each, log) for each, log in zip(named, logs, strict=True)]
    failed = [*errors_alone(named[:2], logs[:2]), *errors_alone(named[1::-1], logs[1::-1])]
    after = with_warnings(sides[1], failed)
    return Sides(before=sides[0], after=after, control=sides[2] if control else None)


def require_distinct(named: Sequence[str]) -> None:
    """Check that no file or server is named twice.

    Raises:
        UsageError: when one is.
    """
    seen: dict[tuple[str, ...], str] = {}
    for reference in named:
        parts = [reference, *reference.split(PERIOD, 1)]
        paths = files_of(reference) or [Path(each) for each in parts[1:]]
        place = tuple(str(path.resolve()) if path.exists() else str(path) for path in paths)
        if place in seen:
            raise UsageError(
                seen=f"{seen[place]} and {reference} are the same",
                cause="A measurement does not differ from itself",
                next_step="Name two, as in `seatrial sql compare BEFORE AFTER`",
            )
        seen[place] = reference


def with_warnings(side: Entrant, reported: Sequence[str]) -> Entrant:
    """Return a side with further warnings."""
    return msgspec.structs.replace(side, warnings=[*side.warnings, *reported])


def _entrant(reference: str, reading: Reading, counted: Mapping[str, Snapshot]) -> Entrant:
    """Return a side by what it is."""
    kind, path = _kind(reference), Path(reference)
    if kind == "run":
        return one_replay(reference, reading.results)
    if kind == "trace":
        return of_trace(reference, path)
    if kind == "web":
        return of_access_log(reference, _access_log(reference, reading))
    if kind == "log":
        return of_log(reference, files_of(reference), quiet=reading.quiet)
    if kind == "period":
        begin, end = (read_snapshot(Path(each)) for each in reference.split(PERIOD, 1))
        span_s = covered_s(begin, end)
        if span_s is not None and span_s < 0:
            raise _reversed(reference)
        between, lost = grown(begin, end)
        return of_snapshot(reference, between, span_s, lost)
    return of_snapshot(_server(reference), counted[reference], None, 0)


def _access_log(reference: str, reading: Reading) -> AccessLog:
    paths = files_of(reference) or [Path(reference)]
    return read_access_log(paths, unit_s=reading.time_unit_s, column=reading.time_column)


def _server(reference: str) -> str:
    """Return what to call a side: host and database of a server, else what the user wrote."""
    if not reference.startswith(URLS):
        return reference
    from seatrial.postgres.connection import parse_url  # noqa: PLC0415 - only here

    address, _ = parse_url(reference)
    return f"{address.place}/{address.dbname}"


def _snapshot(reference: str) -> Snapshot:
    """Return counters of pg_stat_statements, of a file or of a server now."""
    if not reference.startswith(URLS):
        return read_snapshot(Path(reference))
    from seatrial.trials.database.measure.server_side import counted_at  # noqa: PLC0415 - only here

    return snapshot_of(counted_at(reference).as_texts())


def _of_one_server(references: Sequence[str], counted: Mapping[str, Snapshot]) -> list[str]:
    """Return a warning where one of two snapshots holds what the other had counted."""
    for first, second in (references, references[::-1]):
        is_known = first in counted and second in counted
        if is_known and contains(counted[first], counted[second]):
            period = f"{first}{PERIOD}{second}"
            is_of_files = URLS[0] not in period and URLS[1] not in period
            return [
                f"{_server(second)} holds all that {_server(first)} had counted, and more: if they "
                "are two moments of one server, the same calls are on both sides. What it did "
                f"between them is {period if is_of_files else 'FROM.csv..TO.csv'}."
            ]
    return []


def _reversed(reference: str) -> UsageError:
    begin, _, end = reference.partition(PERIOD)
    return UsageError(
        seen=f"{end} was taken before {begin}",
        cause="A period goes from its earlier snapshot to its later one",
        next_step=f"Name it as {end}{PERIOD}{begin}",
    )


def files_of(reference: str) -> list[Path]:
    """Return the files that a reference names: one, several with commas, or a pattern's."""
    path = Path(reference)
    if path.is_file():
        return [path]
    pieces = [Path(each) for each in reference.split(",")]
    if len(pieces) > 1 and all(each.is_file() for each in pieces):
        return pieces
    found = sorted(glob.glob(reference)) if "*" in reference else []  # noqa: PTH207 - any folder
    return [Path(each) for each in found if Path(each).is_file()]


def _kind(reference: str) -> str:
    """Return what a reference names, by the content where it is a file.

    ``url``, ``period`` (two snapshots), ``run`` (of a results file, or one itself), ``trace``,
    ``snapshot``, ``web`` or ``log``.
    """
    if reference.startswith(URLS):
        return "url"
    begin, _, end = reference.partition(PERIOD)
    if begin and end and Path(begin).is_file() and Path(end).is_file():
        return "period"
    files = files_of(reference)
    kinds = {content_of(each) for each in files}
    if len(files) > 1 and (len(kinds) > 1 or not kinds <= IN_PIECES):
        raise UsageError(
            seen=f"{reference} names {len(files)} files that are not pieces of one log",
            cause="Access logs and logs of PostgreSQL may come in pieces, nothing else",
            next_step="Name one file a side",
        )
    return kinds.pop() if kinds else "run"


def content_of(path: Path) -> str:
    """Return what a file holds: ``run``, ``trace``, ``snapshot``, ``web`` or ``log``."""
    head = _head(path)
    if head.startswith(SQLITE_HEAD):
        return "run"
    if head.startswith(TRACE_BEGINS):
        return "trace"
    if is_snapshot(path):
        return "snapshot"
    return "web" if is_access_log(path) else "log"


def holds_statements(path: Path) -> bool:
    """Return whether a file is a whole trace of SQL, by its metadata."""
    try:
        with path.open("rb") as file:
            size_bytes = file.seek(0, os.SEEK_END)
            file.seek(max(0, size_bytes - _PARQUET_END_BYTES))
            length_bytes = int.from_bytes(file.read(4), "little")
            if file.read() != TRACE_BEGINS:
                return False
            file.seek(max(0, size_bytes - _PARQUET_END_BYTES - length_bytes))
            return TRACE_KEY in file.read(length_bytes)
    except OSError:
        return False


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE_HEAD))
    except OSError as error:
        raise UsageError(
            seen=f"{path} cannot be read: {error.strerror}",
            cause="It is closed to this user",
            next_step=f"See `ls -l {path}`",
        ) from None


def require_alike(sides: Sides, offset_s: float | None) -> None:
    """Check that sides are measurements of one kind.

    Raises:
        UsageError: when they are not, or clocks differ and no offset was stated.
    """
    _require_alike(sides.before, sides.after, offset_s)
    if sides.control is not None:
        _require_alike(sides.before, sides.control, offset_s)


def _require_alike(before: Entrant, after: Entrant, offset_s: float | None) -> None:
    kinds = {before.kind, after.kind}
    if len(kinds) > 1 and kinds != {"replay", "log"}:
        raise UsageError(
            seen=f"{before.name} is {_KINDS[before.kind]}, {after.name} is {_KINDS[after.kind]}",
            cause="What they time is not the same: a page is many queries, and "
            "pg_stat_statements counts execution alone",
            next_step="Compare two of one kind",
        )
    if offset_s is None and before.clock != after.clock:
        clocks: dict[Clock, str] = {each.clock: each.name for each in (before, after)}
        raise UsageError(
            seen=f"The times of {clocks['server']} are the server's, those of {clocks['client']} "
            "the client's",
            cause="The client's hold the way there and back and the client's own work, the "
            "server's do not: of short queries that is most of the time, and every one would "
            "look slower",
            next_step="Replay the trace on the old server too, and compare the two replays; or "
            "state what the way takes, such as --client-offset 80us (the fastest answer of the "
            "new server is a bound of it)",
        )


_KINDS: Final = {
    "replay": "a replay",
    "log": "a log",
    "statements": "a snapshot of pg_stat_statements",
    "web": "an access log",
    "batch": "a batch",
}


def on_one_clock(sides: Sides, offset_s: float) -> Sides:
    """Return sides with so much taken off each call of those that have the client's times.

    A query of which nothing is left in some unit is left out of all units and sides.
    """
    known = [side for side in (sides.before, sides.after, sides.control) if side is not None]
    lost = {
        key
        for side in known
        if side.clock == "client"
        for unit in side.units
        for key, each in unit.measured.items()
        if each.total_s <= each.calls * offset_s
    }
    reported = [_without(side, lost, offset_s if side.clock == "client" else 0.0) for side in known]
    if lost:
        queries = format_plural(len(lost), "query", "queries")
        reported[1] = msgspec.structs.replace(
            reported[1],
            warnings=[
                *reported[1].warnings,
                f"{queries} took the client no longer than what is taken off: they are not "
                "compared.",
            ],
        )
    return msgspec.structs.replace(
        sides,
        before=reported[0],
        after=reported[1],
        control=reported[2] if sides.control is not None else None,
    )


def _without(side: Entrant, lost: Collection[str], offset_s: float) -> Entrant:
    """Return a side without some queries, and with so much taken off each call of the others."""
    units = [
        msgspec.structs.replace(
            unit,
            measured={
                key: msgspec.structs.replace(each, total_s=each.total_s - each.calls * offset_s)
                for key, each in unit.measured.items()
                if key not in lost
            },
            timeline=None if offset_s else unit.timeline,
        )
        for unit in side.units
    ]
    return msgspec.structs.replace(side, units=units)
