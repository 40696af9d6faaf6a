"""The verdict on a replay: whether it was complete and correct, or its faults.

Terminal, report and exit code use it. A replay has no fault when every statement that could be
sent was sent, to a database with the rows of the captured one, with no more errors than in the
capture, with every id mapped that the captured server generated, and with the captured rows
in all compared tables. Statements that the log lacks (such as the data of COPY) or that options
exclude (``--until``, ``--read-only``, ``--allow``, ``--database``) are reported, and are no
fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from seatrial.results.replay import CAPTURE, LOST_HOST, ReplayContent, ReplayErrors, ReplayRecord
from seatrial.stats.wording import format_count, format_plural, format_share
from seatrial.trials.replay.analysis.ids import capture_helps, content_sentence, reference_text

if TYPE_CHECKING:
    from seatrial.findings.model import Summary

NO_CONNECTION: Final = "no_connection"
COPY_DATA: Final = "copy_data"
"""The one reason to skip a statement that is a fault."""

UNDEFINED: Final = ("3D000", "3F000", "42P01", "42703", "42883", "42704")
"""SQLSTATEs of what a database lacks: database, schema, table, column, function, other object."""

UNKNOWN_CODE: Final = "?????"
"""An error of a log without error codes; it may be any."""

SCHEMA_ERROR_CLASS: Final = "42"
"""SQLSTATE class of syntax errors and access rule violations: a missing table, column or function,
or another type. Source: PostgreSQL's documentation, Appendix A."""
PRIVILEGE: Final = "42501"
"""Insufficient privilege, which belongs to that class."""

CONFLICT_ORDERS: Final = ("object", "key", "strict")
"""Orders that keep the order of all conflicting statements."""

IN_FAILED_TRANSACTION: Final = "25P02"
STATEMENTS_MIN: Final = 10
"""With fewer statements, shares are not significant."""
SHARE_MAX: Final = 0.5
READ_SHARE_MAX: Final = 0.9
"""Reads without a row are common (polled queues): alone they indicate a wrong database only if
almost no read finds a row."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something that went wrong in a replay.

    Attributes:
        kind: ``not_accounted``, ``lost_hosts``, ``refused``, ``server_lost``, ``interrupted``,
            ``nothing_sent``, ``wrong_database``, ``empty_database``, ``other_rows``,
            ``lost_sessions``, ``more_errors``, ``rolled_back``, ``under_delivery``,
            ``other_content`` or ``doubtful_ids``.
        sentence: The observation with figures, without a full stop.
        next: What to check or try.
    """

    kind: str
    sentence: str
    next: str


class ReplayVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a replay.

    Attributes:
        ok: Whether nothing went wrong.
        sentence: The headline of the replay, without a full stop.
        faults: The most severe first; empty if nothing went wrong.
    """

    ok: bool
    sentence: str
    faults: list[Fault]

    @property
    def reasons(self) -> list[str]:
        """The faults as sentences, the most severe first."""
        return [fault.sentence for fault in self.faults]


def judge(record: ReplayRecord) -> ReplayVerdict:
    """Return the verdict on one replay."""
    faults = list(_faults(record))
    account = account_text(record)
    sentence = f"{faults[0].sentence}: {account}" if faults else account
    return ReplayVerdict(ok=not faults, sentence=sentence, faults=faults)


def verdict_of_rounds(records: Sequence[ReplayRecord]) -> ReplayVerdict:
    """Return the verdict on several rounds of one replay: that of the worst round.

    Raises:
        ValueError: when there is no round.
    """
    if not records:
        raise ValueError("no round of a replay to judge")
    verdicts = [judge(record) for record in records]
    faulty = [
        (number, verdict) for number, verdict in enumerate(verdicts, start=1) if not verdict.ok
    ]
    if not faulty or len(records) == 1:
        return verdicts[0]
    number, first = min(faulty, key=lambda pair: KINDS.index(pair[1].faults[0].kind))
    where = f"{len(faulty)} of {len(records)} rounds had faults; round {number}: "
    return msgspec.structs.replace(first, sentence=where + first.sentence)


def verdicts_by_target(summary: Summary) -> dict[str, ReplayVerdict]:
    """Return the verdict on the replays on each target of a run; empty without any."""
    records: dict[str, list[ReplayRecord]] = {}
    lost: dict[str, list[str]] = {}
    for part in summary.cells:
        for sample in part.samples:
            if sample.replay is not None:
                records.setdefault(part.cell.target, []).append(sample.replay)
                hosts = sample.fleet.lost if sample.fleet else []
                lost.setdefault(part.cell.target, []).extend(host.name for host in hosts)
    return {
        target: _with_lost_hosts(verdict_of_rounds(rounds), lost[target])
        for target, rounds in records.items()
    }


def _with_lost_hosts(verdict: ReplayVerdict, lost: Sequence[str]) -> ReplayVerdict:
    """Return a verdict that names the hosts that were lost first."""
    if not lost or not verdict.faults:
        return verdict
    named = f"Lost {', '.join(sorted(set(lost)))}: "
    first, *others = verdict.faults
    first = msgspec.structs.replace(first, sentence=named + first.sentence)
    return msgspec.structs.replace(
        verdict, sentence=named + verdict.sentence, faults=[first, *others]
    )


def replay_verdict(summary: Summary) -> str:
    """Return in one line whether the replays of a run match their capture; empty without any."""
    verdicts = verdicts_by_target(summary)
    if len(verdicts) == 1:
        (only,) = verdicts.values()
        contents = [
            sample.replay.content
            for part in summary.cells
            for sample in part.samples
            if sample.replay is not None
        ]
        return _verdict_of_one(only, contents)
    return "; ".join(
        f"{target}: {'replay complete' if verdict.ok else _lowered(verdict.faults[0].sentence)}"
        for target, verdict in verdicts.items()
    )


def _verdict_of_one(verdict: ReplayVerdict, contents: Sequence[ReplayContent | None]) -> str:
    if not verdict.ok:
        return f"replay has faults: {_lowered(verdict.faults[0].sentence)}"
    return f"replay complete: {verdict.sentence}; {_rows_text(contents)}"


def _rows_text(contents: Sequence[ReplayContent | None]) -> str:
    """Return how the rows of the rounds compare with the capture, or with another replay."""
    compared = [each for each in contents if each is not None and each.against]
    different = [each for each in compared if each.different]
    if different:
        return f"rows differ from {reference_text(different[0])}"
    with_capture = [each for each in compared if each.against == CAPTURE]
    if compared and not with_capture:
        return "rows not compared with the capture"
    least = min(with_capture, key=lambda each: each.tables, default=None)
    if least is None or not least.tables or len(with_capture) < len(contents):
        return "rows not compared"
    if least.is_same:
        return "rows equal the capture"
    tables = least.tables + len(least.not_compared)
    return f"rows of {least.tables} of {format_plural(tables, 'table')} equal the capture"


def _lowered(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def account_text(record: ReplayRecord) -> str:
    """Return how many statements were sent, the fate of the others, and the new errors."""
    total, errors = record.total, record.errors
    captured = format_plural(total.captured, "statement")
    parts = [f"{format_count(total.sent)} of {captured} {_were(total.sent)} sent"]
    if total.skipped_count:
        parts.append(f"{format_count(total.skipped_count)} skipped")
    if total.not_reached:
        parts.append(f"{format_count(total.not_reached)} not reached")
    if errors.unanswered:
        parts.append(f"{format_count(errors.unanswered)} never answered")
    if errors.other:
        parts.append(f"{format_plural(errors.other, 'error')} with another code than captured")
    parts.append(format_plural(errors.new, "new error"))
    return ", ".join(parts)


KINDS: Final = (
    *("not_accounted", "lost_hosts", "refused", "server_lost", "interrupted", "nothing_sent"),
    *("wrong_database", "empty_database", "other_rows", "lost_sessions"),
    *("more_errors", "rolled_back", "under_delivery", "other_content", "doubtful_ids"),
)
"""Kinds of faults, the most severe first."""


def _faults(record: ReplayRecord) -> Iterator[Fault]:
    """Yield the faults in the order of ``KINDS``."""
    yield from _not_accounted(record)
    yield from _lost_hosts(record)
    yield from _ended_early(record)
    yield from _nothing_sent(record)
    yield from _wrong_database(record)
    yield from _empty_database(record)
    yield from _other_rows(record)
    yield from _lost_sessions(record)
    yield from _more_errors(record)
    yield from _rolled_back(record)
    yield from _under_delivery(record)
    yield from _other_content(record)
    yield from _doubtful_ids(record)


def _not_accounted(record: ReplayRecord) -> Iterator[Fault]:
    wrong = [name for name, account in record.classes.items() if not account.adds_up]
    if wrong:
        yield Fault(
            kind="not_accounted",
            sentence=f"The counts of {', '.join(wrong)} do not add up",
            next="This is a bug in Seatrial; please report it",
        )


def _lost_hosts(record: ReplayRecord) -> Iterator[Fault]:
    lost = record.total.skipped.get(LOST_HOST, 0)
    if lost:
        yield Fault(
            kind="lost_hosts",
            sentence=f"{format_plural(lost, 'statement')} {_were(lost)} of hosts that were lost, "
            "sent or not",
            next="Bring the hosts back, and restart the replay with a restored target",
        )


def _ended_early(record: ReplayRecord) -> Iterator[Fault]:
    message = record.words or record.sessions.words
    detail = f" ({message})" if message else ""
    if record.end == "server_lost" and not record.sessions.connected:
        yield Fault(
            kind="refused",
            sentence=f"The server accepted no connection{detail}",
            next="Try psql with the same address, role and database",
        )
    elif record.end == "server_lost":
        yield Fault(
            kind="server_lost",
            sentence=f"The connection to the server was lost during the replay{detail}",
            next="Check the server's log of that time; the results until then are kept",
        )
    elif record.end == "interrupted":
        yield Fault(
            kind="interrupted",
            sentence="The replay was interrupted",
            next="The results until then are kept; restart the replay with a restored target",
        )


def _nothing_sent(record: ReplayRecord) -> Iterator[Fault]:
    total = record.total
    if total.sent or record.end != "complete":
        return
    if not total.captured:
        sentence = "The trace has no statements"
        after = "Check what was read from the log: seatrial sql show"
    else:
        reason, count = max(total.skipped.items(), key=lambda item: item[1], default=("", 0))
        why = f": {format_count(count)} for {reason.replace('_', ' ')}" if count else ""
        sentence = f"Nothing was sent{why}"
        after = "Check the reasons below; --database, --until and --read-only exclude statements"
    yield Fault(kind="nothing_sent", sentence=sentence, next=after)


def _wrong_database(record: ReplayRecord) -> Iterator[Fault]:
    if is_migrated(record):
        return
    missing = [
        example
        for example in record.errors.examples
        if example.sqlstate in UNDEFINED and example.kind in ("new", "other")
    ]
    if not missing:
        return
    count = sum(example.count for example in missing)
    worst = max(missing, key=lambda example: example.count)
    ddl = record.total.skipped.get("ddl", 0)
    hint = (
        f"; {format_plural(ddl, 'DDL statement')} {_were(ddl)} skipped: --allow ddl" if ddl else ""
    )
    yield Fault(
        kind="wrong_database",
        sentence=f"Objects used by {format_plural(count, 'statement')} are missing in the database "
        f"({worst.sqlstate}: {worst.message})",
        next=f"Replay on a restore of the captured database to the start of the capture{hint}",
    )


def _empty_database(record: ReplayRecord) -> Iterator[Fault]:
    rows = record.rows
    observations = []
    if _is_most(rows.empty_writes, rows.writes):
        share = format_share(rows.empty_writes / rows.writes)
        observations.append(
            f"{share} of {format_count(rows.writes)} updates and deletes affected no row"
        )
    if _is_most(rows.empty_reads, rows.reads, SHARE_MAX if observations else READ_SHARE_MAX):
        share = format_share(rows.empty_reads / rows.reads)
        observations.append(f"{share} of {format_count(rows.reads)} reads returned no row")
    if not observations:
        return
    after = "Replay on a restore of the captured database to the start of the capture"
    if record.trace.get("masked") == "yes":
        after += "; the trace is masked, so its values match no rows of the captured database"
    yield Fault(
        kind="empty_database",
        sentence=f"The database is empty or not the captured one: {' and '.join(observations)}",
        next=after,
    )


def _other_rows(record: ReplayRecord) -> Iterator[Fault]:
    rows = record.rows
    different = rows.compared - rows.equal
    if _is_most(different, rows.compared):
        yield Fault(
            kind="other_rows",
            sentence=f"row counts of {format_count(different)} of "
            f"{format_plural(rows.compared, 'statement')} differ from the capture",
            next="Replay on a restore of the captured database to the start of the capture",
        )


def _is_most(count: int, of: int, most: float = SHARE_MAX) -> bool:
    return of >= STATEMENTS_MIN and count > most * of


def _lost_sessions(record: ReplayRecord) -> Iterator[Fault]:
    sessions = record.sessions
    # Includes sessions that connected later: until then fewer were active than in the capture.
    refused = sessions.refused
    if record.end == "server_lost" or not (sessions.lost or refused):
        return
    parts = []
    if refused:
        attempts = format_plural(refused, "connection attempt")
        parts.append(f"{attempts} {_were(refused)} refused")
    if sessions.lost:
        parts.append(f"{format_plural(sessions.lost, 'connection')} {_were(sessions.lost)} lost")
    detail = f" ({sessions.words})" if sessions.words else ""
    yield Fault(
        kind="lost_sessions",
        sentence=f"{' and '.join(parts)}{detail}",
        next="Raise max_connections of the target, or limit the replay with --connections",
    )


def is_migrated(record: ReplayRecord) -> bool:
    """Return whether a replay was run on a migrated schema on purpose.

    Schema errors are then reported as such (analysis/model.py), and are not a fault.
    """
    return record.trace.get("migrated") == "yes"


def order_may_help(record: ReplayRecord) -> bool:
    """Return whether ``--order key`` may keep more of the captured order than this replay did."""
    return record.sessions.captured > 1 and record.order.mode not in CONFLICT_ORDERS


def copies_without_data(record: ReplayRecord) -> str:
    """Return a sentence about rows that COPYs without data in the trace loaded; empty if none."""
    count = record.total.skipped.get(COPY_DATA, 0)
    if not count:
        return ""
    return (
        f"{format_plural(count, 'COPY', 'COPYs')} {_were(count)} skipped, without data in the "
        "trace: rows that they loaded are missing in any order"
    )


def is_schema_error(sqlstate: str) -> bool:
    """Return whether an error code is of a statement that does not match the schema."""
    return sqlstate.startswith(SCHEMA_ERROR_CLASS) and sqlstate != PRIVILEGE


def _more_errors(record: ReplayRecord) -> Iterator[Fault]:
    more = errors_beyond(record.errors)
    if is_migrated(record):
        # Statements after a schema error fail with its transaction.
        followed = any(map(is_schema_error, more))
        more = Counter(
            {
                code: count
                for code, count in more.items()
                if not is_schema_error(code) and not (followed and code == IN_FAILED_TRANSACTION)
            }
        )
    unanswered = record.errors.unanswered
    if record.end != "complete":
        unanswered = 0  # the end of the replay explains them
    if not more and not unanswered:
        return
    counts = [f"{format_count(count)} with {code}" for code, count in more.most_common(3)]
    others = f" and {len(more) - 3} more codes" if len(more) > 3 else ""
    if unanswered:
        counts.append(f"{format_plural(unanswered, 'statement')} without an answer")
    yield Fault(
        kind="more_errors",
        sentence=f"More errors than in the capture: {', '.join(counts)}{others}",
        next="See the examples below; 'seatrial sql show' has the errors of the capture",
    )


def errors_beyond(errors: ReplayErrors) -> Counter[str]:
    """Return by code how many more errors there were than in the capture.

    Errors that depend on timing, such as serialization failures, hit varying statements, so the
    number of each code is compared. Old results files have no codes but those of the examples:
    further errors count together, as ``other codes``, and may be those that are gone.
    """
    balance: Counter[str] = Counter()
    for code, counts in errors.by_code.items():
        balance[code] = counts.now - counts.captured
    unknown = 0 if errors.by_code else _add_examples(balance, errors)
    unknown += max(0, -balance.pop(UNKNOWN_CODE, 0))
    for code, count in balance.most_common():
        covered = min(unknown, max(0, count))
        balance[code] -= covered
        unknown -= covered
    return +balance


def _add_examples(balance: Counter[str], errors: ReplayErrors) -> int:
    """Add the errors of an old results file, and return how many of unknown code are gone."""
    listed: Counter[str] = Counter()
    for example in errors.examples:
        listed[example.kind] += example.count
        if example.kind in ("new", "other"):
            balance[example.sqlstate] += example.count
        if example.kind in ("gone", "other"):
            balance[example.captured_sqlstate] -= example.count
    rest = (errors.new - listed["new"]) - (errors.gone - listed["gone"])
    fewer = sum(-count for code, count in balance.items() if count < 0 and code != UNKNOWN_CODE)
    balance["other codes"] += max(0, rest - fewer)
    return max(0, -rest)


def _rolled_back(record: ReplayRecord) -> Iterator[Fault]:
    lost, captured = record.commits.lost, record.commits.captured
    if lost:
        yield Fault(
            kind="rolled_back",
            sentence=f"{format_plural(lost, 'transaction')} of {format_count(captured)} "
            f"that committed in the capture {_were(lost)} rolled back",
            next="One of their statements failed: see the new errors below",
        )


def _under_delivery(record: ReplayRecord) -> Iterator[Fault]:
    total = record.total
    unconnected = total.skipped.get(NO_CONNECTION, 0)
    if record.end != "complete" or not (total.not_reached or unconnected):
        return
    parts = []
    if total.not_reached:
        parts.append(f"{format_count(total.not_reached)} were not reached")
    if unconnected:
        parts.append(f"{format_count(unconnected)} had no connection")
    yield Fault(
        kind="under_delivery",
        sentence=f"Not all statements were sent: {' and '.join(parts)}",
        next="See the sessions below, and the server's log",
    )


def _other_content(record: ReplayRecord) -> Iterator[Fault]:
    content = record.content
    if content is None or content.against != CAPTURE or not content.different:
        return
    if lost := copies_without_data(record):
        first = lost
    elif order_may_help(record):
        first = "Replay with '--order key', which keeps the order of all conflicting statements"
    else:
        first = "Check that nothing wrote to the captured database after the end of the capture"
    yield Fault(
        kind="other_content",
        sentence=content_sentence(content),
        next=f"{first}; see below why IDs were not mapped (replay_ids_unresolved)",
    )


def _doubtful_ids(record: ReplayRecord) -> Iterator[Fault]:
    ids = record.ids
    if ids is None or ids.mode == "off" or not ids.doubtful_uses:
        return
    if record.content is not None and record.content.is_same:
        return  # every table was compared and is equal
    values = format_plural(ids.doubtful_uses, "value")
    are = "may be an ID" if ids.doubtful_uses == 1 else "may be IDs"
    capture = "; a capture through the proxy has fewer of them" if capture_helps(ids) else ""
    yield Fault(
        kind="doubtful_ids",
        sentence=f"Rows may differ from the capture: {values} that {are} generated during the "
        f"capture {_were(ids.doubtful_uses)} sent as captured",
        next=f"See the reasons below (replay_ids_unresolved){capture}",
    )


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
