"""The orders object, key and strict on real servers: whatever overlaps, the data are the same.

So it is of logs with durations. One of starts does not tell who of several had a row first,
where they began at the same moment (docs/sql.md): there all has to be played, and strict the same
way each time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial.results.replay import ReplayRecord
from trials.replay.contended_load import SESSIONS, TABLES, contended_load
from trials.replay.loads import Trace, read
from trials.replay.logging_server import MODES, LoggingServer
from trials.replay.targets import END_OF_LOGGING, Target, play

TURNS = 24
"""Of each session."""
PROTOCOLS = ("simple", "extended")
RUNS = ("strict", "object", "key", "object", "key", "strict")
TAKEN_BACK = "DROP TABLE note, wide, total, entry, place; DROP FUNCTION changed"


class Contended:
    """A load that was captured while it ran; the database ``contended`` is as it begins."""

    def __init__(self, source: LoggingServer, mode: str, protocol: str, folder: Path) -> None:
        self.has_durations = mode == "log_min_duration"
        on_source = Target(source.server, None)
        on_source.run("postgres", TABLES)
        name = f"contended-{protocol}-{mode}"
        with source.logging(name, **MODES[mode]):
            contended_load(source, TURNS, extended=protocol == "extended")
        self.checksums = on_source.checksums("postgres")
        on_source.run("postgres", TAKEN_BACK)
        self.trace: Trace = read(source.log(name, "csv"), folder / f"{name}.trace")


@pytest.fixture(scope="module", params=[(mode, one) for mode in MODES for one in PROTOCOLS])
def contended(request, source, target, tmp_path_factory) -> Contended:
    target.make("contended", TABLES)
    mode, protocol = request.param
    return Contended(source, mode, protocol, tmp_path_factory.mktemp("contended"))


def played(
    contended: Contended, target: Target, order: str, **wanted: object
) -> tuple[ReplayRecord, dict[str, tuple[int, str]]]:
    name = target.make("contended_played", template="contended")
    record = play(contended.trace.path, target.address(name), order=order, **wanted)
    assert record.end == "complete", record.words
    assert record.order.mode == order
    assert record.total.ok == record.total.captured - END_OF_LOGGING, record.errors
    return record, target.checksums(name)


def test_the_data_do_not_depend_on_what_overlaps(contended, target):
    found = [played(contended, target, order) for order in RUNS]
    first = found[0][1]
    assert all(rows > 0 for rows, _ in first.values())
    for order, (record, checksums) in zip(RUNS, found, strict=True):
        if contended.has_durations or order == "strict":
            assert checksums == first, (order, record.order, found[0][0].order)
        if checksums != first:
            # Then the server's locks showed another order than the log, and that is reported.
            assert record.order.postponed + found[0][0].order.postponed > 0
        assert record.order.edges > 0
        assert 0 < record.order.statement_ns < 1e6
        assert sum(record.order.delayed_by.values()) > 0
        assert record.order.released_by_patience == 0
    strict, by_object, by_key = (set(found[place][0].order.delayed_by) for place in range(3))
    assert strict == {"order"}
    # A trigger may do anything: what fires it waits for all that was before, in every order.
    # What the order holds back but for a table or a key follows what the server's locks let go.
    assert by_object - {"order"} == {"object"}
    assert "key" in by_key


@pytest.mark.parametrize("connections", [1, 3])
def test_it_ends_with_fewer_connections_than_there_were(contended, target, connections):
    for order in ("strict", "object", "key"):
        record, _ = played(contended, target, order, connections_max=connections)
        assert record.sessions.open_max == connections
        assert record.sessions.captured >= SESSIONS
        # What others wait for was to come from sessions that could not come in: that is reported.
        assert record.order.released_by_lock + record.order.released_by_patience > 0


def test_a_pace_is_kept_in_order(contended, target):
    strict = played(contended, target, "strict")[1]
    record, checksums = played(contended, target, "key", speed=4.0)
    assert checksums == strict or not contended.has_durations
    assert record.lag.paced > 0
