"""Whether a replay did what the capture holds, or what went wrong: one judgement for everyone.

Terminal, report and exit code all rest on it. A replay is well when every statement that could be
sent was sent, to a database that holds what the capture's held, with no more errors than in the
capture, with no id left as captured that the captured server generated, and with the captured rows
in all tables where these were compared. What the log does not hold (data of COPY and the like) and
what was left out on demand (``--until``, ``--read-only``, dangers, other databases) is told, and is
no fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from seatrial.results.replay import ReplayErrors, ReplayRecord
from seatrial.results.replay_content import CAPTURE
from seatrial.stats.wording import format_count, format_plural, format_share
from seatrial.trials.replay.analysis.content import content_sentence

NO_CONNECTION: Final = "no_connection"
"""The one reason to skip a statement that is a fault."""

UNDEFINED: Final = ("3D000", "3F000", "42P01", "42703", "42883", "42704")
"""SQLSTATEs of what a database lacks: database, schema, table, column, function, other object."""

UNKNOWN_CODE: Final = "?????"
"""An error of a log that does not tell codes: it may have been any."""

MISFIT_CLASS: Final = "42"
"""SQLSTATEs of syntax errors and violated access rules: a table, column or function that is gone,
or another type. Source: PostgreSQL's documentation, Appendix A."""
PRIVILEGE: Final = "42501"
"""Of that class, and of rights alone."""

IN_FAILED_TRANSACTION: Final = "25P02"
JUDGED_MIN: Final = 10
"""Of fewer statements no share is judged."""
MOST: Final = 0.5
ALL_BUT: Final = 0.9
"""Reads that find nothing are an application's daily bread (queues that are polled): alone they
tell of a wrong database only where hardly any finds something."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Something that went wrong.

    Attributes:
        kind: ``not_accounted``, ``refused``, ``server_lost``, ``interrupted``, ``nothing_sent``,
            ``wrong_database``, ``empty_database``, ``other_rows``, ``lost_sessions``,
            ``more_errors``, ``rolled_back``, ``under_delivery``, ``other_content`` or
            ``doubtful_ids``.
        sentence: What was seen, with figures, without a full stop.
        next: What to look at, or to try.
    """

    kind: str
    sentence: str
    next: str


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be thought of a replay.

    Attributes:
        ok: Whether nothing went wrong.
        sentence: The first sentence that anybody reads of it, without a full stop.
        faults: The gravest first; empty where it is well.
    """

    ok: bool
    sentence: str
    faults: list[Fault]

    @property
    def reasons(self) -> list[str]:
        """What went wrong, as sentences, the gravest first."""
        return [fault.sentence for fault in self.faults]


def judge(record: ReplayRecord) -> Judgement:
    """Return what is to be thought of one replay."""
    faults = list(_faults(record))
    account = account_of(record)
    sentence = f"{faults[0].sentence}: {account}" if faults else account
    return Judgement(ok=not faults, sentence=sentence, faults=faults)


def judge_rounds(records: Sequence[ReplayRecord]) -> Judgement:
    """Return what is to be thought of several rounds of one replay: as of the worst of them.

    Raises:
        ValueError: when there is no round.
    """
    if not records:
        raise ValueError("no round of a replay to judge")
    judged = [judge(record) for record in records]
    bad = [(place, each) for place, each in enumerate(judged, start=1) if not each.ok]
    if not bad or len(records) == 1:
        return judged[0]
    place, first = min(bad, key=lambda each: KINDS.index(each[1].faults[0].kind))
    where = f"In {len(bad)} of {len(records)} rounds something went wrong; in round {place}: "
    return msgspec.structs.replace(first, sentence=where + first.sentence)


def account_of(record: ReplayRecord) -> str:
    """Return how many statements were sent, what became of the others, and the new errors."""
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
        parts.append(f"{format_plural(errors.other, 'error')} of another code than captured")
    parts.append(format_plural(errors.new, "new error"))
    return ", ".join(parts)


KINDS: Final = (
    *("not_accounted", "refused", "server_lost", "interrupted", "nothing_sent"),
    *("wrong_database", "empty_database", "other_rows", "lost_sessions"),
    *("more_errors", "rolled_back", "under_delivery", "other_content", "doubtful_ids"),
)
"""Kinds of faults, the gravest first."""


def _faults(record: ReplayRecord) -> Iterator[Fault]:
    """Yield what went wrong in the order of ``KINDS``."""
    yield from _not_accounted(record)
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
            sentence=f"Statements of {', '.join(wrong)} were lost count of",
            next="This is a defect of Seatrial; please report it",
        )


def _ended_early(record: ReplayRecord) -> Iterator[Fault]:
    words = record.words or record.sessions.words
    said = f" ({words})" if words else ""
    if record.end == "server_lost" and not record.sessions.connected:
        yield Fault(
            kind="refused",
            sentence=f"The server took no connection{said}",
            next="Try psql with the same address, role and database",
        )
    elif record.end == "server_lost":
        yield Fault(
            kind="server_lost",
            sentence=f"The server was lost in mid-replay{said}",
            next="Read the server's log of that moment; what ran before is kept and told",
        )
    elif record.end == "interrupted":
        yield Fault(
            kind="interrupted",
            sentence="The replay was interrupted",
            next="What ran is kept and told; a replay begins anew, from a fresh target",
        )


def _nothing_sent(record: ReplayRecord) -> Iterator[Fault]:
    total = record.total
    if total.sent or record.end != "complete":
        return
    if not total.captured:
        sentence = "The trace holds no statement"
        after = "See what was read of the log: seatrial sql show"
    else:
        reason, count = max(total.skipped.items(), key=lambda each: each[1], default=("", 0))
        why = f": {format_count(count)} for {reason.replace('_', ' ')}" if count else ""
        sentence = f"Nothing was sent{why}"
        after = "Look at the reasons below; --database, --until and --read-only leave much out"
    yield Fault(kind="nothing_sent", sentence=sentence, next=after)


def _wrong_database(record: ReplayRecord) -> Iterator[Fault]:
    if is_migrated(record):
        return
    lacking = [
        each
        for each in record.errors.examples
        if each.sqlstate in UNDEFINED and each.kind in ("new", "other")
    ]
    if not lacking:
        return
    count = sum(each.count for each in lacking)
    worst = max(lacking, key=lambda each: each.count)
    ddl = record.total.skipped.get("ddl", 0)
    hint = f"; {format_plural(ddl, 'statement')} of DDL were left out: --allow ddl" if ddl else ""
    yield Fault(
        kind="wrong_database",
        sentence=f"The database lacks what {format_plural(count, 'statement')} "
        f"{'names' if count == 1 else 'name'} ({worst.sqlstate}: {worst.message})",
        next=f"Replay on a restore of the captured database of that moment{hint}",
    )


def _empty_database(record: ReplayRecord) -> Iterator[Fault]:
    rows = record.rows
    reported = []
    if _is_most(rows.empty_writes, rows.writes):
        share = format_share(rows.empty_writes / rows.writes)
        reported.append(
            f"{share} of {format_count(rows.writes)} updates and deletes touched no row"
        )
    if _is_most(rows.empty_reads, rows.reads, MOST if reported else ALL_BUT):
        share = format_share(rows.empty_reads / rows.reads)
        reported.append(f"{share} of {format_count(rows.reads)} reads returned no row")
    if not reported:
        return
    after = "Replay on a restore of the captured database of that moment"
    if record.trace.get("masked") == "yes":
        after += "; the trace is masked, so that its values find no rows of the captured database"
    yield Fault(
        kind="empty_database",
        sentence=f"The database is empty, or not the captured one: {' and '.join(reported)}",
        next=after,
    )


def _other_rows(record: ReplayRecord) -> Iterator[Fault]:
    rows = record.rows
    different = rows.compared - rows.equal
    if _is_most(different, rows.compared):
        yield Fault(
            kind="other_rows",
            sentence=f"{format_count(different)} of {format_plural(rows.compared, 'statement')} "
            "had another number of rows than in the capture",
            next="Replay on a restore of the captured database of that moment",
        )


def _is_most(count: int, of: int, most: float = MOST) -> bool:
    return of >= JUDGED_MIN and count > most * of


def _lost_sessions(record: ReplayRecord) -> Iterator[Fault]:
    sessions = record.sessions
    # Also who was let in later: meanwhile fewer were at work than in the capture.
    refused = sessions.refused
    if record.end == "server_lost" or not (sessions.lost or refused):
        return
    parts = []
    if refused:
        parts.append(f"{format_plural(refused, 'connection')} {_were(refused)} refused")
    if sessions.lost:
        parts.append(f"{format_plural(sessions.lost, 'connection')} {_were(sessions.lost)} lost")
    said = f" ({sessions.words})" if sessions.words else ""
    yield Fault(
        kind="lost_sessions",
        sentence=f"{' and '.join(parts)}{said}",
        next="Raise max_connections of the target, or bound the replay by --connections",
    )


def is_migrated(record: ReplayRecord) -> bool:
    """Tell whether a replay was played on another schema than the captured one, on purpose.

    What does not fit it is counted for it (analysis/schemas.py), and is no fault.
    """
    return record.trace.get("migrated") == "yes"


def is_misfit(sqlstate: str) -> bool:
    """Tell whether an error is of a statement that does not fit the schema."""
    return sqlstate.startswith(MISFIT_CLASS) and sqlstate != PRIVILEGE


def _more_errors(record: ReplayRecord) -> Iterator[Fault]:
    more = errors_beyond(record.errors)
    if is_migrated(record):
        # What follows a misfit in its transaction fails with it.
        followed = any(map(is_misfit, more))
        more = Counter(
            {
                code: count
                for code, count in more.items()
                if not is_misfit(code) and not (followed and code == IN_FAILED_TRANSACTION)
            }
        )
    unanswered = record.errors.unanswered
    if record.end != "complete":
        unanswered = 0  # the end of the replay itself tells why
    if not more and not unanswered:
        return
    reported = [f"{format_count(count)} of {code}" for code, count in more.most_common(3)]
    others = f" and {len(more) - 3} more codes" if len(more) > 3 else ""
    if unanswered:
        reported.append(f"{format_plural(unanswered, 'statement')} without an answer")
    yield Fault(
        kind="more_errors",
        sentence=f"More errors than in the capture: {', '.join(reported)}{others}",
        next="The examples below name statement and session; `seatrial sql show` has the capture's",
    )


def errors_beyond(errors: ReplayErrors) -> Counter[str]:
    """Return by code how many more errors there were than in the capture.

    Errors that depend on the moment, such as those of serialisation, move from one statement to
    another: it is the number of each code that counts. Errors that are not among the examples
    count together, as ``other codes``.
    """
    balance: Counter[str] = Counter()
    examples: Counter[str] = Counter()
    for each in errors.examples:
        examples[each.kind] += each.count
        if each.kind in ("new", "other"):
            balance[each.sqlstate] += each.count
        if each.kind in ("gone", "other"):
            balance[each.captured_sqlstate] -= each.count
    rest = (errors.new - examples["new"]) - (errors.gone - examples["gone"])
    balance["other codes"] += max(0, rest)
    unknown = max(0, -balance.pop(UNKNOWN_CODE, 0))
    for code, count in balance.most_common():
        covered = min(unknown, max(0, count))
        balance[code] -= covered
        unknown -= covered
    return +balance


def _rolled_back(record: ReplayRecord) -> Iterator[Fault]:
    commits = record.commits
    lost = min(commits.captured - commits.committed, commits.rolled_back)
    if lost > 0:
        yield Fault(
            kind="rolled_back",
            sentence=f"{format_plural(lost, 'transaction')} of {format_count(commits.captured)} "
            "that were committed in the capture were rolled back",
            next="A statement inside of them failed: see the new errors below",
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
    yield Fault(
        kind="other_content",
        sentence=content_sentence(content),
        next="Replay with '--order key', which keeps the order of all that conflicts; the reasons "
        "why ids were left alone are below (replay_ids_unresolved)",
    )


def _doubtful_ids(record: ReplayRecord) -> Iterator[Fault]:
    ids = record.ids
    if ids is None or ids.mode == "off" or not ids.doubtful_uses:
        return
    if record.content is not None and record.content.is_same:
        return  # every table was looked at, and holds what it should
    values = format_plural(ids.doubtful_uses, "value")
    are = "may be an id" if ids.doubtful_uses == 1 else "may be ids"
    yield Fault(
        kind="doubtful_ids",
        sentence=f"Rows may differ from the capture's: {values} that {are} generated during the "
        f"capture {_were(ids.doubtful_uses)} sent as captured",
        next="See the reasons below (replay_ids_unresolved); a capture through the proxy leaves "
        "fewer of them",
    )


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
