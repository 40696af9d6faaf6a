"""The server's own statistics and waits, asked for over one connection while a trial runs."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from seatrial.errors import SeatrialError
from seatrial.trials.database.measure import observe_sql as sql
from seatrial.trials.database.measure.observe_columns import IO_PREFIX
from seatrial.trials.database.measure.observe_series import Readings
from seatrial.trials.database.measure.observe_session import STATEMENT_TIMEOUT_S, Session, reason
from seatrial.trials.database.measure.observe_waits import Waits

if TYPE_CHECKING:
    from seatrial.postgres.connection import Address, Secret

SETTLE_S_MAX: Final = 0.6
"""How long is waited for the trial's backends to end: with that they report the last."""
LOOK_EVERY_S: Final = 0.02
LATE_REPORT_S: Final = 0.6
"""Before version 15 reports are sent every half second, and read when half a second old."""
REPORT_LAG_S: Final = 0.5
"""How late a report is on the average: backends report at most once a second."""
PROMPT_VERSION: Final = 150000
"""From this version on, what a backend has reported is seen at once."""
BLOCK_BYTES: Final = 8192


class ServerWatch:
    """Reads a server's statistics period by period, and its waits more often.

    Its own transactions are counted, and taken off those that the server counts.

    Args:
        address: Where the server listens.
        secret: The password, if it needs one.
        databases: Whose transactions and blocks count; those of all databases if empty.
        period_s: Between two readings of the statistics.
        waits_period_s: Between two looks at the waits.

    Attributes:
        moments: What was read of the statistics that tell of the moment.
        reports: What was read of what the server's backends report now and then.
        waits: Of the active clients.
        notes: What could not be read and why, as sentences.
        block_bytes: Size of the server's blocks.
        cpu_ns: Processor time of the thread that watched.
    """

    def __init__(
        self,
        address: Address,
        secret: Secret | None,
        *,
        databases: Collection[str],
        period_s: float,
        waits_period_s: float,
    ) -> None:
        self.moments = Readings(period_s)
        self.reports = Readings(period_s)
        self.waits = Waits(period_s)
        self.notes: list[str] = []
        self.block_bytes = BLOCK_BYTES
        self.cpu_ns = 0
        self._address = address
        self._secret = secret
        self._databases = list(databases)
        self._period_s = period_s
        self._waits_period_s = waits_period_s
        self._session: Session | None = None
        self._moment_queries: list[str] = []
        self._report_queries: list[str] = []
        self._values: dict[str, Any] = {}
        self._counts_own = False
        self._untimed: tuple[str, ...] = ()
        self._others_at_start = 0
        self._began_s = 0.0

    @property
    def session_pid(self) -> int | None:
        """The number that the server gives the process that answers us; None without one."""
        return None if self._session is None else self._session.pid

    def open(self) -> None:
        """Connect and find out what may be read; what goes wrong is noted, never raised."""
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        try:
            self._session = Session(self._address, self._secret)
            self._learn(self._session)
            self._prepare(self._session)
        except SeatrialError as error:
            self._give_up(error.seen)
        except (psycopg.Error, OSError) as error:
            self._give_up(reason(error))

    def begin(self, began_s: float) -> None:
        """Take the first reading; ``began_s`` is the trial's start on the monotonic clock."""
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        self._began_s = began_s
        if self._session is None:
            return
        try:
            self._read_moment(self._session, 0.0)
            self._read_reports(self._session, 0.0)
        except (psycopg.Error, OSError) as error:
            self._give_up(reason(error))

    def watch(self, ending: Event) -> None:
        """Read until told to end, then wait for the last reports and read once more.

        What a statement that takes too long would have told is missing; when the connection is
        lost, all from there on is. Never raises for what the server does.
        """
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        session = self._session
        if session is None:
            return
        try:
            self._watch(session, ending)
            ended_s = self._now_s()
            self._read_moment(session, ended_s)
            self._settle(session)
            self._read_reports(session, ended_s)
        except (psycopg.Error, OSError) as error:
            self._give_up(reason(error))
        if session.given_up:
            self.notes.append(
                f"{session.given_up} of the observer's queries took longer than "
                f"{STATEMENT_TIMEOUT_S:g} s and were given up; what they would have told is missing"
            )
        with suppress(psycopg.Error, OSError):
            session.close()
        self.cpu_ns = time.thread_time_ns()

    def hang_up(self) -> None:
        """End the connection under a query that does not come back, from another thread."""
        if self._session is not None:
            self._session.hang_up()

    def _learn(self, session: Session) -> None:
        """Find out what this server is and what it lets us see."""
        [facts] = session.records(sql.FACTS, {"databases": self._databases}) or [{}]
        self.block_bytes = facts.get("block_bytes", BLOCK_BYTES)
        self._values = {"all": not self._databases, "oids": facts.get("oids", [])}
        self._counts_own = not self._databases or facts.get("database") in self._databases
        untimed = {"track_io_timing": (IO_PREFIX, "shared_"), "track_wal_io_timing": ("wal_",)}
        for setting, prefixes in untimed.items():
            if facts.get(setting) != "on":
                self._untimed += prefixes
        if not facts.get("sees_all"):
            self.notes.append(
                "The role may not see other roles' sessions (it lacks pg_read_all_stats): waits "
                "are those of its own sessions, and whether a checkpoint runs is not known"
            )

    def _prepare(self, session: Session) -> None:
        """Send every statement once, which prepares it, and find out what is allowed."""
        self._moment_queries = self._allowed(session, sql.moment_queries(session.version))
        self._report_queries = self._allowed(session, sql.report_queries(session.version))
        session.rows(sql.WAITS, self._values)
        others = session.rows(sql.OTHERS, {})
        self._others_at_start = others[0][0] if others else 0
        if session.version < PROMPT_VERSION:
            time.sleep(LATE_REPORT_S)
        # Counted from the first reading on, by when all statements are prepared: to prepare one is
        # a transaction of its own.
        session.rows(sql.report_now(session.version), {})

    def _allowed(self, session: Session, queries: dict[str, str]) -> list[str]:
        """Return those queries that the server answers, and note why it does not the others."""
        import psycopg  # noqa: PLC0415 - heavy, and only where there is a server

        allowed = []
        for about, query in queries.items():
            try:
                session.rows(query, self._values)
            except psycopg.OperationalError:
                raise
            except psycopg.Error as error:
                self.notes.append(f"The statistics of {about} are not readable: {reason(error)}")
            else:
                allowed.append(query)
        return allowed

    def _watch(self, session: Session, ending: Event) -> None:
        """Look and read, each at its time, until told to end."""
        look_s, moment_s, report_s = self._waits_period_s, self._period_s, self._period_s
        while True:
            due_s = min(look_s, moment_s, report_s + REPORT_LAG_S)
            if ending.wait(max(0.0, due_s - self._now_s())):
                return
            now_s = self._now_s()
            if now_s >= look_s:
                look_s = _boundary_after(now_s, self._waits_period_s)
                self._look(session, now_s)
            if now_s >= moment_s:
                moment_s = _boundary_after(now_s, self._period_s)
                self._read_moment(session, now_s)
            if now_s - REPORT_LAG_S >= report_s:
                report_s = _boundary_after(now_s - REPORT_LAG_S, self._period_s)
                self._read_reports(session, now_s - REPORT_LAG_S)

    def _look(self, session: Session, at_s: float) -> None:
        """Look once at what the clients wait for."""
        rows = session.rows(sql.WAITS, self._values)
        if rows is not None:
            self.waits.add(at_s, rows)

    def _read_moment(self, session: Session, at_s: float) -> None:
        """Read what tells of the moment, unless the server is too slow to say it."""
        found = self._read(session, self._moment_queries)
        if found is not None:
            self.moments.add(at_s, found)

    def _read_reports(self, session: Session, at_s: float) -> None:
        """Read what the backends did until ``at_s``, unless the server is too slow to say it."""
        if session.rows(sql.report_now(session.version), {}) is None:
            return
        own = session.transactions
        found = self._read(session, self._report_queries)
        if found is None:
            return
        if self._counts_own and "transactions_committed" in found:
            found["transactions_committed"] -= own
        self.reports.add(at_s, found)

    def _read(self, session: Session, queries: list[str]) -> dict[str, float] | None:
        """Return the figures of some queries; None when one took too long."""
        found: dict[str, float] = {}
        for query in queries:
            records = session.records(query, self._values)
            if records is None:
                return None
            for record in records:
                found |= self._figures(record)
        return found

    def _figures(self, record: dict[str, Any]) -> dict[str, float]:
        """Return the figures of one row, without times that the server does not take."""
        context = record.pop("context", "")
        prefix = f"{IO_PREFIX}{context}_" if context else ""
        figures = {f"{prefix}{name}": value for name, value in record.items() if value is not None}
        return {
            name: value
            for name, value in figures.items()
            if not (name.endswith("_ns") and name.startswith(self._untimed))
        }

    def _settle(self, session: Session) -> None:
        """Wait until the trial's backends have ended, with which they report the last."""
        until_s = self._now_s() + SETTLE_S_MAX
        while self._now_s() < until_s:
            others = session.rows(sql.OTHERS, {})
            if others is None or others[0][0] <= self._others_at_start:
                break
            time.sleep(LOOK_EVERY_S)
        if session.version < PROMPT_VERSION:
            time.sleep(LATE_REPORT_S)

    def _give_up(self, why: str) -> None:
        """Note why nothing more is known, and from when on."""
        since_s = self.moments.last_s
        words = "are not known" if since_s is None else f"end after {since_s:.1f} s"
        self.notes.append(f"The server's own statistics {words}: {why}")

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s


def _boundary_after(at_s: float, period_s: float) -> float:
    """Return the next multiple of a period: what was missed is not made up for."""
    return (int(at_s / period_s) + 1) * period_s
