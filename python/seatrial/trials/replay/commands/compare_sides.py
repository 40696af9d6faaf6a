"""The sides of a comparison, read from files, runs and servers that are recognised by content."""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from seatrial import _core
from seatrial.cli.files import PARQUET_MAGIC
from seatrial.cli.sources import SQLITE_HEAD
from seatrial.errors import UsageError, native_errors
from seatrial.importers.access_log import AccessLog, is_access_log, read_access_log
from seatrial.importers.statements import is_snapshot, read_snapshot
from seatrial.results.model import Run
from seatrial.statement_counters import (
    Snapshot,
    Statement,
    added,
    contains,
    covered_s,
    grown,
    snapshot_of,
)
from seatrial.stats.wording import format_count, format_first, format_plural
from seatrial.trials.replay.commands.compare_replays import replay_side, replay_sides, server_work
from seatrial.trials.replay.commands.read import temporary_trace
from seatrial.trials.replay.compare.model import (
    CallFigures,
    CallTimeline,
    Clock,
    MeasuredSide,
    QueryLabel,
    Unit,
)
from seatrial.trials.replay.compare.warnings import ERRORS_SHARE_MAX
from seatrial.trials.replay.study.trace_facts import trace_facts
from seatrial.units import US_PER_S

PAGES_NAMED: Final = 3
UNTIMED_SHARE_MAX: Final = 0.05
TRACE_KEY: Final = b"seatrial.trace.version"
"""Key in the metadata of SQL traces only (crates/trace/src/schema.rs)."""
_PARQUET_END_BYTES: Final = 8
"""Length of the metadata and Parquet's magic bytes, at the end of a file."""


class _Query(msgspec.Struct, frozen=True, kw_only=True):
    """A query of a trace over time (crates/trace/src/mix/time_series.rs)."""

    hash: str
    text: str
    kind: str = msgspec.field(name="class")
    calls: int
    timed: int
    total_us: int
    errors: int
    time_series: list[tuple[int, int, int]]


class _OtherQueries(msgspec.Struct, frozen=True, kw_only=True):
    calls: int


class _TraceTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """The queries of a trace over time (crates/trace/src/mix/time_series.rs)."""

    first_us: int | None
    last_us: int | None
    slice_us: int
    slices: int
    statements: int
    timed: int
    queries: list[_Query]
    others: _OtherQueries


def log_side(reference: str, paths: Sequence[Path], *, quiet: bool) -> MeasuredSide:
    """Return a log, in one file or several, as a side; it is read into a temporary trace.

    Raises:
        SeatrialError: when it is not a log, or has no durations.
    """
    with temporary_trace(paths, quiet=quiet) as trace:
        return trace_side(reference, trace)


def trace_side(reference: str, trace: Path) -> MeasuredSide:
    """Return a trace as a side.

    Raises:
        UsageError: when it is not a trace, or has no durations.
    """
    with native_errors():
        timeline = msgspec.json.decode(_core.trace_time_series(trace), type=_TraceTimeline)
    if not timeline.timed or timeline.first_us is None or timeline.last_us is None:
        raise UsageError(
            seen=f"{reference} has no durations",
            cause="It was logged with log_statement, which records only when statements began",
            next_step="Log with log_min_duration_statement = 0, see docs/sql.md; or replay it on "
            "both servers and compare the replays",
        )
    queries = [query for query in timeline.queries if query.timed]
    unit = Unit(
        number=0,
        measured={
            query.hash: CallFigures(
                calls=query.timed,
                total_s=query.total_us / US_PER_S,
                # In a log, failed calls have no duration, and are not among the timed ones.
                errors=max(0, query.timed + query.errors - query.calls),
            )
            for query in queries
        },
        begin_s=timeline.first_us / US_PER_S,
        covered_s=(timeline.last_us - timeline.first_us) / US_PER_S,
        calls=timeline.statements,
        timeline=CallTimeline(
            slice_s=timeline.slice_us / US_PER_S,
            slices=timeline.slices,
            calls={q.hash: {at: float(calls) for at, calls, _ in q.time_series} for q in queries},
            total_s={q.hash: {at: us / US_PER_S for at, _, us in q.time_series} for q in queries},
        ),
    )
    is_wire = _is_capture(trace)
    failed = sum(min(query.errors, query.calls - query.timed) for query in timeline.queries)
    untimed = timeline.statements - timeline.timed - failed
    warnings = []
    if failed > ERRORS_SHARE_MAX * timeline.statements:
        warnings.append(
            f"{format_count(failed)} of {format_count(timeline.statements)} statements of "
            f"{reference} failed and have no duration: they are not compared."
        )
    if untimed > UNTIMED_SHARE_MAX * timeline.statements:
        warnings.append(
            f"{format_count(untimed)} of {format_count(timeline.statements)} statements of "
            f"{reference} have no duration: they are not compared. A threshold such as "
            "log_min_duration_statement = 100ms logs the slow ones only."
        )
    if timeline.others.calls:
        warnings.append(
            f"{format_count(timeline.others.calls)} statements of {reference} are of queries that "
            "were too many to be distinguished: they are not compared."
        )
    return MeasuredSide(
        name=reference,
        kind="log",
        clock="client" if is_wire else "server",
        detail="captured on the network" if is_wire else "",
        units=[unit],
        labels={query.hash: QueryLabel(query.text, query.kind) for query in queries},
        warnings=warnings,
    )


def _is_capture(trace: Path) -> bool:
    """Return whether a trace is of `seatrial sql capture`, which has client times."""
    facts = trace_facts(trace)
    return facts is not None and facts.is_wire


def access_log_side(reference: str, log: AccessLog) -> MeasuredSide:
    """Return an access log as a side."""
    known = log.begin_s is not None and log.end_s is not None
    unit = Unit(
        number=0,
        measured={
            # Failed requests are not among the timed ones.
            pattern: CallFigures(calls=page.calls, total_s=page.total_s)
            for pattern, page in log.pages.items()
        },
        begin_s=log.begin_s,
        covered_s=(log.end_s or 0.0) - (log.begin_s or 0.0) if known else None,
        calls=sum(page.calls + page.errors for page in log.pages.values()),
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
    return MeasuredSide(
        name=reference,
        kind="web",
        clock="server",
        units=[unit],
        labels={pattern: QueryLabel(pattern, "page") for pattern in log.pages},
        detail=f"time from {log.time_source}{_left_out_text(log)}",
        warnings=[*_line_warnings(reference, log), *_failed_warning(reference, log)],
    )


def _failed_warning(reference: str, log: AccessLog) -> Iterator[str]:
    failed = sum(page.errors for page in log.pages.values())
    requests = failed + sum(page.calls for page in log.pages.values())
    if failed > ERRORS_SHARE_MAX * requests:
        yield (
            f"{format_count(failed)} of {format_count(requests)} requests of {reference} failed "
            "(status 400 and above): their times are not compared."
        )


def only_errors_warning(names: Sequence[str], logs: Sequence[AccessLog]) -> list[str]:
    """Return a warning on pages of the first of two logs that only failed in the second."""
    failed = logs[1].only_errors
    found = [pattern for pattern in logs[0].pages if pattern in failed]
    if not found:
        return []
    pages = [f"{each} ({format_plural(failed[each], 'request')})" for each in found]
    return [
        f"{format_plural(len(found), 'page')} of {names[0]} returned only errors (status "
        f"400 and above) in {names[1]}, and cannot be compared: "
        f"{format_first(pages, PAGES_NAMED)}."
    ]


def _left_out_text(log: AccessLog) -> str:
    """Return which requests of the log are not compared, as further phrases."""
    text = ""
    if log.static:
        text += f", {format_plural(log.static, 'request')} of static files left out"
    if log.only_errors:
        pages = format_plural(len(log.only_errors), "page")
        text += f", {pages} with only errors left out"
    return text


def _line_warnings(reference: str, log: AccessLog) -> Iterator[str]:
    if log.unread:
        yield (
            f"{format_count(log.unread)} of {format_plural(log.lines, 'line')} of {reference} are "
            "not readable as requests."
        )
    if log.untimed:
        yield f"{format_plural(log.untimed, 'request')} of {reference} had no time."
    if log.others:
        yield (
            f"{format_plural(log.others, 'request')} of {reference} are of patterns that were too "
            "many to be distinguished: they are not compared."
        )


def snapshot_side(
    reference: str, snapshot: Snapshot, span_s: float | None, lost: int
) -> MeasuredSide:
    """Return a snapshot as a side; statements with the same fingerprint are combined.

    Args:
        reference: The user's name for it.
        snapshot: The counters.
        span_s: Length of the period; None if unknown.
        lost: Statements whose counters were reset or evicted meanwhile.

    Raises:
        UsageError: when it has no statement.
    """
    sums: dict[str, Statement] = {}
    labels: dict[str, QueryLabel] = {}
    for statement in snapshot.statements.values():
        key, text, kind, _ = _core.fingerprint_sql(statement.query)
        labels[key] = QueryLabel(text, kind)
        sums[key] = added(sums.get(key), statement)
    if not sums:
        raise UsageError(
            seen=f"{reference} has no statement",
            cause="Nothing was executed since the last reset, or statement texts are not readable",
            next_step="Read it as a role with pg_read_all_stats",
        )
    warnings = []
    if snapshot.hidden:
        warnings.append(
            f"{format_plural(snapshot.hidden, 'statement')} of {reference} are of other roles, and "
            "hidden from this one: they are not compared. Read it as a role with pg_read_all_stats."
        )
    if lost:
        warnings.append(
            f"Counters of {format_plural(lost, 'statement')} of {reference} were reset or evicted "
            "between its snapshots: their earlier counts are lost."
        )
    return MeasuredSide(
        name=reference,
        kind="statements",
        clock="server",
        units=[
            Unit(
                number=0,
                measured={
                    key: CallFigures(calls=total.calls, total_s=total.exec_s)
                    for key, total in sums.items()
                },
                covered_s=span_s,
            )
        ],
        labels=labels,
        detail=f"{format_plural(snapshot.nested, 'statement')} inside functions left out, as part "
        "of the calls"
        if snapshot.nested
        else "",
        server={key: server_work(total) for key, total in sums.items()},
        warnings=warnings,
    )


PERIOD: Final = ".."
URLS: Final = ("postgresql://", "postgres://")
IN_PIECES: Final = frozenset({"web", "log"})


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """The sides of a comparison.

    Attributes:
        before: The baseline.
        after: The side that is judged.
        control: Before, measured once more; None if absent.
        runs: Names and runs of the sides that are runs.
    """

    before: MeasuredSide
    after: MeasuredSide
    control: MeasuredSide | None = None
    runs: list[tuple[str, Run]] = []


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options for reading sides.

    Attributes:
        results: The results file that contains the runs.
        time_unit_s: Unit of the times in access logs; None to detect it.
        time_column: Column of the times after the bytes, from 1; None to detect it.
        quiet: Whether no progress is reported.
        anyway: Whether replays of different loads are compared, with warnings.
    """

    results: Path
    time_unit_s: float | None = None
    time_column: int | None = None
    quiet: bool = False
    anyway: bool = False


def read_sides(references: Sequence[str], control: str | None, reading: ReadOptions) -> Sides:
    """Read the sides that a user names.

    Args:
        references: Before and after, or one run with two targets or schemas.
        control: A/A control, another measurement of before.
        reading: Options.

    Raises:
        SeatrialError: when something cannot be read, or is named twice.
    """
    if len(references) == 1 and _kind(references[0]) != "run":
        raise UsageError(
            seen=f"{references[0]} is one side, and the other is missing",
            cause="Only a run with two targets has two sides",
            next_step=f"Name the other, as in `seatrial sql compare {references[0]} AFTER`",
        )
    names = [*references, *([control] if control else [])]
    if len(references) == 1 or all(_kind(each) == "run" for each in names):
        found = replay_sides(references, control, reading.results, anyway=reading.anyway)
        return Sides(before=found.before, after=found.after, control=found.control, runs=found.runs)
    kinds = [_kind(each) for each in names]
    if set(kinds) == {"web"}:
        return read_page_sides(references, control, reading)
    require_distinct(names)
    snapshots = {
        each: _snapshot(each)
        for each, kind in zip(names, kinds, strict=True)
        if kind in ("snapshot", "url")
    }
    sides = [_read_side(each, reading, snapshots) for each in names]
    after = with_warnings(sides[1], _same_server_warning(references, snapshots))
    return Sides(before=sides[0], after=after, control=sides[2] if control else None)


def read_page_sides(references: Sequence[str], control: str | None, reading: ReadOptions) -> Sides:
    """Return access logs as sides.

    Args:
        references: Before and after.
        control: Another log of before.
        reading: Options.

    Raises:
        UsageError: when one is invalid, is named twice, or has no request times.
    """
    names = [*references, *([control] if control else [])]
    require_distinct(names)
    logs = [_access_log(each, reading) for each in names]
    sides = [access_log_side(each, log) for each, log in zip(names, logs, strict=True)]
    failed = [
        *only_errors_warning(names[:2], logs[:2]),
        *only_errors_warning(names[1::-1], logs[1::-1]),
    ]
    after = with_warnings(sides[1], failed)
    return Sides(before=sides[0], after=after, control=sides[2] if control else None)


def require_distinct(names: Sequence[str]) -> None:
    """Check that no file or server is named twice.

    Raises:
        UsageError: when one is.
    """
    seen: dict[tuple[str, ...], str] = {}
    for reference in names:
        parts = [reference, *reference.split(PERIOD, 1)]
        paths = files_of(reference) or [Path(part) for part in parts[1:]]
        files = tuple(str(path.resolve()) if path.exists() else str(path) for path in paths)
        if files in seen:
            raise UsageError(
                seen=f"{seen[files]} and {reference} are the same",
                cause="A measurement does not differ from itself",
                next_step="Name two, as in `seatrial sql compare BEFORE AFTER`",
            )
        seen[files] = reference


def with_warnings(side: MeasuredSide, warnings: Sequence[str]) -> MeasuredSide:
    """Return a side with further warnings."""
    return msgspec.structs.replace(side, warnings=[*side.warnings, *warnings])


def _read_side(
    reference: str, reading: ReadOptions, snapshots: Mapping[str, Snapshot]
) -> MeasuredSide:
    """Return a side by its kind."""
    kind, path = _kind(reference), Path(reference)
    if kind == "run":
        return replay_side(reference, reading.results)
    if kind == "trace":
        return trace_side(reference, path)
    if kind == "web":
        return access_log_side(reference, _access_log(reference, reading))
    if kind == "log":
        return log_side(reference, files_of(reference), quiet=reading.quiet)
    if kind == "period":
        begin, end = (read_snapshot(Path(each)) for each in reference.split(PERIOD, 1))
        span_s = covered_s(begin, end)
        if span_s is not None and span_s < 0:
            raise _reversed(reference)
        between, lost = grown(begin, end)
        return snapshot_side(reference, between, span_s, lost)
    return snapshot_side(_side_name(reference), snapshots[reference], None, 0)


def _access_log(reference: str, reading: ReadOptions) -> AccessLog:
    paths = files_of(reference) or [Path(reference)]
    return read_access_log(paths, unit_s=reading.time_unit_s, column=reading.time_column)


def _side_name(reference: str) -> str:
    """Return the name of a side: host and database of a server, else the user's name."""
    if not reference.startswith(URLS):
        return reference
    from seatrial.postgres.connection import parse_url  # noqa: PLC0415 - only here

    address, _ = parse_url(reference)
    return f"{address.endpoint}/{address.dbname}"


def _snapshot(reference: str) -> Snapshot:
    """Return counters of pg_stat_statements, from a file or from a server now."""
    if not reference.startswith(URLS):
        return read_snapshot(Path(reference))
    from seatrial.trials.database.measure.server_side import counters_at  # noqa: PLC0415

    return snapshot_of(counters_at(reference).as_texts())


def _same_server_warning(references: Sequence[str], snapshots: Mapping[str, Snapshot]) -> list[str]:
    """Return a warning if one of two snapshots includes all that the other had counted."""
    for first, second in (references, references[::-1]):
        is_known = first in snapshots and second in snapshots
        if is_known and contains(snapshots[first], snapshots[second]):
            period = f"{first}{PERIOD}{second}"
            is_of_files = URLS[0] not in period and URLS[1] not in period
            return [
                f"{_side_name(second)} has all counts of {_side_name(first)}, and more: if they "
                "are two moments of one server, the same calls are on both sides. The work "
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
    """Return the files of a reference: one, several with commas, or those of a pattern."""
    path = Path(reference)
    if path.is_file():
        return [path]
    pieces = [Path(each) for each in reference.split(",")]
    if len(pieces) > 1 and all(piece.is_file() for piece in pieces):
        return pieces
    found = sorted(glob.glob(reference)) if "*" in reference else []  # noqa: PTH207 - any folder
    return [Path(each) for each in found if Path(each).is_file()]


def _kind(reference: str) -> str:
    """Return the kind of a reference, by the content if it is a file.

    ``url``, ``period`` (two snapshots), ``run`` (or a results file), ``trace``,
    ``snapshot``, ``web`` or ``log``.
    """
    if reference.startswith(URLS):
        return "url"
    begin, _, end = reference.partition(PERIOD)
    if begin and end and Path(begin).is_file() and Path(end).is_file():
        return "period"
    files = files_of(reference)
    kinds = {content_of(file) for file in files}
    if len(files) > 1 and (len(kinds) > 1 or not kinds <= IN_PIECES):
        raise UsageError(
            seen=f"{reference} names {len(files)} files that are not parts of one log",
            cause="Only access logs and logs of PostgreSQL may have several files",
            next_step="Name one file per side",
        )
    return kinds.pop() if kinds else "run"


def content_of(path: Path) -> str:
    """Return the kind of a file: ``run``, ``trace``, ``snapshot``, ``web`` or ``log``."""
    head = _head(path)
    if head.startswith(SQLITE_HEAD):
        return "run"
    if head.startswith(PARQUET_MAGIC):
        return "trace"
    if is_snapshot(path):
        return "snapshot"
    return "web" if is_access_log(path) else "log"


def is_sql_trace(path: Path) -> bool:
    """Return whether a file is a complete SQL trace, by its metadata."""
    try:
        with path.open("rb") as file:
            size_bytes = file.seek(0, os.SEEK_END)
            file.seek(max(0, size_bytes - _PARQUET_END_BYTES))
            length_bytes = int.from_bytes(file.read(4), "little")
            if file.read() != PARQUET_MAGIC:
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
            cause="This user has no permission",
            next_step=f"See `ls -l {path}`",
        ) from None


def require_same_kind(sides: Sides, offset_s: float | None) -> None:
    """Check that sides are measurements of the same kind.

    Raises:
        UsageError: when they are not, or clocks differ and no offset is given.
    """
    _require_alike(sides.before, sides.after, offset_s)
    if sides.control is not None:
        _require_alike(sides.before, sides.control, offset_s)


def _require_alike(before: MeasuredSide, after: MeasuredSide, offset_s: float | None) -> None:
    kinds = {before.kind, after.kind}
    if len(kinds) > 1 and kinds != {"replay", "log"}:
        raise UsageError(
            seen=f"{before.name} is {_KINDS[before.kind]}, {after.name} is {_KINDS[after.kind]}",
            cause="They do not time the same thing: a page has several queries, and "
            "pg_stat_statements counts only execution",
            next_step="Compare two of the same kind",
        )
    if offset_s is None and before.clock != after.clock:
        clocks: dict[Clock, str] = {each.clock: each.name for each in (before, after)}
        raise UsageError(
            seen=f"{clocks['server']} has server times, {clocks['client']} has client times",
            cause="Client times include the network and the client's own work, server times "
            "do not: for short queries this is most of the time, and every one would "
            "look slower",
            next_step="Replay the trace on the old server too, and compare the two replays; or "
            "give the network time, such as --client-offset 80us (the fastest answer of the "
            "new server is an upper bound)",
        )


_KINDS: Final = {
    "replay": "a replay",
    "log": "a log",
    "statements": "a snapshot of pg_stat_statements",
    "web": "an access log",
    "batch": "a batch",
}


def without_offset(sides: Sides, offset_s: float) -> Sides:
    """Return sides with an offset subtracted from each call of those with client times.

    A query whose time is not longer than the offset in some unit is removed from all sides.
    """
    all_sides = [side for side in (sides.before, sides.after, sides.control) if side is not None]
    lost = {
        key
        for side in all_sides
        if side.clock == "client"
        for unit in side.units
        for key, each in unit.measured.items()
        if each.total_s <= each.calls * offset_s
    }
    adjusted = [
        _without(side, lost, offset_s if side.clock == "client" else 0.0) for side in all_sides
    ]
    if lost:
        queries = format_plural(len(lost), "query", "queries")
        adjusted[1] = with_warnings(
            adjusted[1],
            [f"{queries} took the client no longer than the offset: they are not compared."],
        )
    return msgspec.structs.replace(
        sides,
        before=adjusted[0],
        after=adjusted[1],
        control=adjusted[2] if sides.control is not None else None,
    )


def _without(side: MeasuredSide, lost: Collection[str], offset_s: float) -> MeasuredSide:
    """Return a side without some queries, with an offset subtracted from each other call."""
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
