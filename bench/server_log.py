"""A log as PostgreSQL 15 would write it, in its three formats, of any length.

The load is that of `pgbench -M prepared` under `log_statement = all`, which is what the published
reading speeds of other tools were measured on: eight sessions, TPC-B like transactions of seven
statements, parameters in the line behind. The three files of one size hold the same statements.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

PREFIX: Final = "%m [%p] %q%u@%d %c %v %x "
SESSIONS: Final = 8
US_PER_STATEMENT: Final = 120
STATEMENTS: Final = (
    ("BEGIN", "BEGIN;", ()),
    (
        "UPDATE",
        "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2;",
        ("delta", "aid"),
    ),
    ("SELECT", "SELECT abalance FROM pgbench_accounts WHERE aid = $1;", ("aid",)),
    (
        "UPDATE",
        "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2;",
        ("delta", "tid"),
    ),
    (
        "UPDATE",
        "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2;",
        ("delta", "bid"),
    ),
    (
        "INSERT",
        "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) "
        "VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP);",
        ("tid", "bid", "aid", "delta"),
    ),
    ("COMMIT", "END;", ()),
)
_BEGAN: Final = datetime(2026, 11, 21, 12, tzinfo=UTC)
_FLUSH_LINES: Final = 10_000


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One statement as the server would log it.

    Attributes:
        at: Its time, to the millisecond, as the server writes it.
        session: Which of the sessions.
        line: Its number in that session's part of the log.
        transaction: Number of the transaction.
        tag: The command.
        number: Number of the prepared statement.
        sql: Its text.
        detail: Its parameters, as the server writes them; empty with none.
    """

    at: str
    session: int
    line: int
    transaction: int
    tag: str
    number: int
    sql: str
    detail: str


def write_log(path: Path, log_format: str, statements: int, seed: int = 1) -> None:
    """Write a log of so many statements in a format: ``stderr``, ``csv`` or ``json``."""
    line_of = WRITERS[log_format]
    with path.open("w", encoding="utf-8") as file:
        lines: list[str] = []
        for execution in _executions(statements, random.Random(seed)):
            lines.append(line_of(execution))
            if len(lines) >= _FLUSH_LINES:
                file.write("".join(lines))
                lines.clear()
        file.write("".join(lines))


def _executions(statements: int, rng: random.Random) -> Iterator[Execution]:
    """Yield the statements of all sessions, which take turns transaction by transaction."""
    lines = [0] * SESSIONS
    for count in range(statements):
        transaction, number = divmod(count, len(STATEMENTS))
        session = transaction % SESSIONS
        if number == 0:
            drawn = {
                "delta": rng.randint(-5000, 5000),
                "aid": rng.randint(1, 1_000_000),
                "tid": rng.randint(1, 100),
                "bid": rng.randint(1, 10),
            }
        tag, sql, names = STATEMENTS[number]
        reported = ", ".join(f"${number} = '{drawn[name]}'" for number, name in enumerate(names, 1))
        lines[session] += 1
        yield Execution(
            at=_clock(count * US_PER_STATEMENT),
            session=session,
            line=lines[session],
            transaction=transaction + 1,
            tag=tag,
            number=number,
            sql=sql,
            detail=f"parameters: {reported}" if reported else "",
        )


def _clock(elapsed_us: int) -> str:
    at = _BEGAN + timedelta(microseconds=elapsed_us)
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d} UTC"


def _stderr_lines(each: Execution) -> str:
    prefix = (
        f"{each.at} [{4000 + each.session}] bench@bench 6b01e664.{4000 + each.session:x} "
        f"{each.session + 3}/{each.transaction} {_id(each)} "
    )
    detail = f"{prefix}DETAIL:  {each.detail}\n" if each.detail else ""
    return f"{prefix}LOG:  execute P_{each.number}: {each.sql}\n{detail}"


def _csv_line(each: Execution) -> str:
    detail = f'"{each.detail}"' if each.detail else ""
    pid = 4000 + each.session
    return (
        f'{each.at},"bench","bench",{pid},"[local]",6b01e664.{pid:x},{each.line},"{each.tag}",'
        f"2026-11-21 12:00:00 UTC,{each.session + 3}/{each.transaction},{_id(each)},LOG,00000,"
        f'"execute P_{each.number}: {each.sql}",{detail},,,,,,,,"pgbench","client backend",,0\n'
    )


def _json_line(each: Execution) -> str:
    detail = f'"detail":"{each.detail}",' if each.detail else ""
    pid = 4000 + each.session
    return (
        f'{{"timestamp":"{each.at}","user":"bench","dbname":"bench","pid":{pid},'
        f'"remote_host":"[local]","session_id":"6b01e664.{pid:x}","line_num":{each.line},'
        f'"ps":"{each.tag}","session_start":"2026-11-21 12:00:00 UTC",'
        f'"vxid":"{each.session + 3}/{each.transaction}","txid":{_id(each)},'
        f'"error_severity":"LOG","message":"execute P_{each.number}: {each.sql}",{detail}'
        '"application_name":"pgbench","backend_type":"client backend","query_id":0}\n'
    )


def _id(each: Execution) -> int:
    """Return the transaction's own number, which it has from its first change on."""
    return 0 if each.number < 2 else 700 + each.transaction


WRITERS: Final[dict[str, Callable[[Execution], str]]] = {
    "stderr": _stderr_lines,
    "csv": _csv_line,
    "json": _json_line,
}
