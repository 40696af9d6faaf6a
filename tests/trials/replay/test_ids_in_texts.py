"""Ids within JSON and texts: the rows are the capture's, or the replay says that it doubts them."""

from __future__ import annotations

import pytest

from trials.replay.loads import read
from trials.replay.logging_server import MODES, LoggingServer
from trials.replay.targets import Target, record_in, replay

CLIENTS = 4
ORDERS = 250
"""Of each client."""

TABLES = """
    CREATE TABLE orders (id serial PRIMARY KEY, key bigint UNIQUE, seen bigint);
    CREATE TABLE events (key bigint, payload jsonb, note text);
    INSERT INTO orders (key) SELECT -n FROM generate_series(1, 300) AS n;
"""
SCRIPT = r"""
\set id 0
\set key random(1, 1000000000000)
INSERT INTO orders (key) VALUES (:key) RETURNING id \gset
UPDATE orders SET seen = :key WHERE id = :id;
INSERT INTO events (key, payload, note) VALUES (:key, {payload}, {note});
"""
JSON = """'{"order_id": :id, "price": "17.50", "on": "2024-01-15"}'"""
TEXT = "'order :id on 2024-01-15 for 17.50'"
IN_TEXTS = {
    "json": SCRIPT.format(payload=JSON, note="NULL"),
    "text": SCRIPT.format(payload="NULL", note=TEXT),
    "both": SCRIPT.format(payload=JSON, note=TEXT),
}
DECOYS = SCRIPT.format(
    payload="""'{"price": 310.50, "on": "2024-03-10"}'""", note="'sold at 311.00, 10:30:15'"
)
"""Prices, dates and times, of which none is an id."""

OF_OTHER_ORDERS = r"""
    SELECT count(*) FROM events AS event
    LEFT JOIN orders AS p ON p.id = (payload ->> 'order_id')::bigint
    LEFT JOIN orders AS n ON n.id = substring(note from 'order (\d+)')::bigint
    WHERE payload ? 'order_id' AND p.key IS DISTINCT FROM event.key
        OR note LIKE 'order %' AND n.key IS DISTINCT FROM event.key
"""
"""Events that name another order than their own."""
EVENTS_BUT_IDS = r"""
    SELECT key, payload - 'order_id', regexp_replace(note, 'order \d+', '')
    FROM events ORDER BY key
"""


def logged(source: LoggingServer, script: str, folder) -> tuple[object, list]:
    """Log a load in several sessions at once; return its trace, and its events but their ids."""
    captured = Target(source.server, None)
    captured.run("postgres", "DROP TABLE IF EXISTS orders, events; " + TABLES)
    folder.chmod(0o755)
    file = folder / "load.sql"
    file.write_text(script)
    with source.logging(folder.name, **MODES["log_statement"]):
        count = source.pgbench(
            "--no-vacuum",
            f"--client={CLIENTS}",
            f"--transactions={ORDERS}",
            f"--file={file}",
        )
    assert count == CLIENTS * ORDERS
    assert captured.run("postgres", OF_OTHER_ORDERS) == [(0,)]
    held = captured.run("postgres", EVENTS_BUT_IDS)
    captured.run("postgres", "DROP TABLE orders, events")
    return read(source.log(folder.name, "csv"), folder / "load.trace").path, held


def played(source, target, script: str, folder):
    """Replay a plain log by the command; return its end, events of other orders, the record."""
    trace, held = logged(source, script, folder)
    database = target.make("in_texts", TABLES)
    options = ("--order", "session", "--allow-writes", database)
    ended = replay(trace, target.url(database), *options, folder=folder)
    assert ended.code in (0, 4), ended.out + ended.err
    assert target.run(database, EVENTS_BUT_IDS) == held
    ((wrong,),) = target.run(database, OF_OTHER_ORDERS)
    return ended, wrong, record_in(folder)


@pytest.mark.parametrize("kind", IN_TEXTS)
def test_events_name_their_own_orders_or_the_replay_ends_with_a_doubt(
    source, target, tmp_path, kind
):
    ended, wrong, record = played(source, target, IN_TEXTS[kind], tmp_path)
    assert sum(each.rewritten for each in record.ids.classes) > 0, "the same ids show nothing"
    doubtful = record.ids.doubtful_uses
    assert wrong <= doubtful
    if wrong:
        assert ended.code == 4
        assert "Rows may differ from the capture's" in " ".join((ended.out + ended.err).split())
    assert wrong < 0.2 * CLIENTS * ORDERS, "most ids within texts are written anew"


def test_prices_dates_and_times_are_left_alone(source, target, tmp_path):
    _, wrong, record = played(source, target, DECOYS, tmp_path)
    assert wrong == 0
    assert record.ids.not_followed.get("text", 0) == 0
