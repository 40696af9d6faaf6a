"""Rows of two databases, compared by content: planted differences are found, other ids are none."""

from __future__ import annotations

import contextlib

import pytest

from seatrial.errors import UsageError
from seatrial.postgres import row_content
from seatrial.postgres.connection import connect
from seatrial.postgres.row_content import Content, load_content, packed, read_content
from seatrial.results.replay import CAPTURE, ReplayContent
from seatrial.trials.replay.measure.row_comparison import compare_content
from trials.replay.targets import Target

ROWS = 60
TABLES = """
    CREATE TABLE orders (
        id bigserial PRIMARY KEY, key bigint UNIQUE, seen bigint, at timestamptz DEFAULT now()
    );
    CREATE TABLE lines (
        id bigserial PRIMARY KEY, order_id bigint REFERENCES orders, amount int,
        chance float8 DEFAULT random()
    );
    CREATE TABLE parcels (line_id bigint REFERENCES lines, weight int);
    CREATE TABLE events (
        key bigint, payload jsonb, note text, order_id bigint, list bigint[], token uuid
    );
    CREATE TABLE tokens (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), key bigint);
    CREATE TABLE " Odd ""name" ("a b" text, empty int);
"""
FILL = f"""
    INSERT INTO orders (key, seen) SELECT 7000 + n, 7000 + n FROM generate_series(1, {ROWS}) n
        ORDER BY {{order}};
    INSERT INTO lines (order_id, amount) SELECT id, key % 3 FROM orders, generate_series(1, 2)
        ORDER BY {{order_of_lines}};
    INSERT INTO parcels SELECT l.id, key % 5 FROM lines l JOIN orders o ON o.id = order_id;
    INSERT INTO tokens (key) SELECT key FROM orders;
    INSERT INTO events SELECT key, jsonb_build_object('order_id', o.id, 'price', key % 9 + 0.5),
        'order ' || o.id || ' on 2024-01-15, of 17', o.id, ARRAY[o.id, 5], t.id
        FROM orders o JOIN tokens t USING (key);
    INSERT INTO " Odd ""name" VALUES ('17 of 18', NULL), (NULL, 1), ('', 2);
"""
IN_ORDER = FILL.format(order="n", order_of_lines="id")
"""One way to fill the tables."""
OTHERWISE = "SELECT setval('orders_id_seq', 20), setval('lines_id_seq', 9);" + FILL.format(
    order="n * 37 % 61", order_of_lines="id * 11 % 13, id DESC"
)
"""The same rows, of which the server gave others of the ids."""
NO_CHANGE = ""
CHANGES = {
    "a value": ("UPDATE orders SET seen = 1 WHERE key = 7005", {"public.orders": {"seen": 1}}),
    "values of two rows, exchanged": (
        "UPDATE orders SET seen = 14011 - seen WHERE key IN (7005, 7006)",
        {"public.orders": {"seen": 2}},
    ),
    "a row that is gone": ("DELETE FROM events WHERE key = 7007", {"public.events": {}}),
    "a row that is there twice": (
        "INSERT INTO events SELECT * FROM events WHERE key = 7007",
        {"public.events": {}},
    ),
    "lines of two orders, exchanged": (
        "UPDATE lines SET order_id = (SELECT min(id) + max(id) FROM orders WHERE key IN "
        "(7003, 7006)) - order_id WHERE order_id IN (SELECT id FROM orders WHERE key IN "
        "(7003, 7006))",
        {"public.parcels": {"line_id": 4}},
    ),
    "an order of another key": (
        "UPDATE lines SET order_id = (SELECT id FROM orders WHERE key = 7003) WHERE order_id = "
        "(SELECT id FROM orders WHERE key = 7004)",
        {"public.lines": {"order_id": 2}},
    ),
    "a parcel of another line": (
        "UPDATE parcels SET line_id = (SELECT l.id FROM lines l JOIN orders o ON o.id = order_id "
        "WHERE key = 7001 LIMIT 1) WHERE line_id = (SELECT min(l.id) FROM lines l JOIN orders o "
        "ON o.id = order_id WHERE key = 7009)",
        {"public.parcels": {"line_id": 1}},
    ),
    "an id in JSON": (
        "UPDATE events SET payload = payload || '{\"order_id\": 25}' WHERE key IN (7001, 7002)",
        {"public.events": {"payload": 2}},
    ),
    "an id in a text": (
        "UPDATE events SET note = replace(note, order_id::text, '25') WHERE key IN (7001, 7002)",
        {"public.events": {"note": 2}},
    ),
    "an id that no foreign key tells": (
        "UPDATE events SET order_id = 25 WHERE key IN (7001, 7002)",
        {"public.events": {"order_id": 2}},
    ),
    "an id in an array": (
        "UPDATE events SET list[1] = 25 WHERE key IN (7001, 7002)",
        {"public.events": {"list": 2}},
    ),
    "a number in a text that is not an id": (
        "UPDATE events SET note = replace(note, 'of 17', 'of 18') WHERE key = 7001",
        {"public.events": {"note": 1}},
    ),
    "the words of a text": (
        "UPDATE events SET note = 'the ' || note WHERE key = 7001",
        {"public.events": {"note": 1}},
    ),
    "a UUID": (
        "UPDATE events SET token = (SELECT id FROM tokens WHERE key = 7002) WHERE key = 7001",
        {"public.events": {"token": 1}},
    ),
    "a NULL": (
        'UPDATE " Odd ""name" SET "a b" = NULL WHERE "a b" = \'\'',
        {'public. Odd "name': {"a b": 1}},
    ),
}


def content_of(target: Target, name: str) -> Content:
    with contextlib.closing(connect(target.address(name))) as connection:
        return read_content(connection)


@pytest.fixture(scope="module")
def captured(target) -> Content:
    return content_of(target, target.make("rows_captured", TABLES + IN_ORDER))


def compared(captured: Content, target: Target, change: str) -> ReplayContent:
    name = target.make("rows_now", TABLES + OTHERWISE + change)
    return compare_content(captured, content_of(target, name), against=CAPTURE, file="x.rows")


def test_other_ids_are_the_same_rows(captured, target):
    found = compared(captured, target, NO_CHANGE)
    assert found.different == []
    assert (found.tables, found.not_compared) == (6, {})
    assert found.rows == sum(table.count for table in captured.tables.values()) == 7 * ROWS + 3
    assert found.not_judged == ["public.lines.chance", "public.orders.at"]
    assert found.is_same


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_is_found(captured, target, change):
    statement, expected = CHANGES[change]
    found = compared(captured, target, f"{statement};")
    assert {each.name: each.columns for each in found.different} == expected
    for each in found.different:
        rows = max([*each.columns.values(), abs(each.rows_now - each.rows_captured)])
        assert each.rows_different == rows
    assert found.is_same == (not expected)


def test_tables_of_one_side_are_named(captured, target):
    found = compared(captured, target, "DROP TABLE parcels; CREATE TABLE more (n int);")
    assert [*found.not_compared] == ["public.parcels", "public.more"]
    assert not found.is_same


def test_what_is_too_large_is_named(target):
    with contextlib.closing(connect(target.address("rows_captured"))) as connection:
        found = read_content(connection, bytes_max=20_000)
    assert found.tables.keys() | found.unread.keys() == {
        *("public.events", "public.lines", "public.orders", "public.parcels", "public.tokens"),
        'public. Odd "name',
    }
    assert set(found.unread.values()) == {"beyond 0 MiB of tables"}


ALIKE = """
    CREATE TABLE counter (k text PRIMARY KEY, v bigint);
    INSERT INTO counter SELECT 'c' || n, n + {more} FROM generate_series(1, 20) AS n;
"""
JOBS = """
    CREATE TABLE job (id serial PRIMARY KEY, state int, label text UNIQUE);
    SELECT setval('job_id_seq', {first});
    INSERT INTO job (state) SELECT 0 FROM generate_series(1, 500);
    UPDATE job SET label = 'ORD-000' || id;
"""


@pytest.mark.parametrize("jobs", ["", JOBS])
def test_each_row_of_another_number_counts(target, jobs):
    # Numbers 1 to 20 are ids of jobs, too, and one job is like another.
    one, other = (
        content_of(target, target.make(name, jobs.format(first=first) + ALIKE.format(more=more)))
        for name, first, more in (("counted", 1, 0), ("counted_now", 3, 9))
    )
    (found,) = compare_content(one, other, against=CAPTURE, file="").different
    assert (found.name, found.columns, found.rows_different) == ("public.counter", {"v": 20}, 20)


OUTLIER = """
    CREATE TABLE nothing ();
    INSERT INTO nothing DEFAULT VALUES;
    CREATE TABLE parts (id bigint GENERATED ALWAYS AS IDENTITY, day date, twice bigint
        GENERATED ALWAYS AS (v * 2) STORED, v bigint) PARTITION BY RANGE (v);
    CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (10);
    CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (10) TO (20);
    INSERT INTO parts (day, v) SELECT '2024-01-01', n FROM generate_series(1, 19) AS n;
    CREATE TABLE base (n int);
    CREATE TABLE child (more text) INHERITS (base);
    INSERT INTO child VALUES (1, 'x'), (2, NULL);
    CREATE TABLE empty (t text, j json, x xml, b bytea, i interval, f float4, a text[]);
    CREATE TYPE mood AS ENUM ('well', '50% {of} it');
    CREATE TABLE moods ("%s {}" mood, h int4range, c parts_1);
    INSERT INTO moods VALUES ('50% {of} it', '[1,5)', ROW(1, '2024-01-01', 2, 1));
    CREATE VIEW seen AS SELECT * FROM base;
"""
WIDE = f"CREATE TABLE wide ({', '.join(f'c{n} text' for n in range(300))});"
INTO_WIDE = "INSERT INTO wide (c0, c299) VALUES ('17', 'order 17');"


def test_tables_of_all_kinds_are_read(target):
    one, other = (
        content_of(target, target.make(f"outlier_{name}", OUTLIER + WIDE + INTO_WIDE + change))
        for name, change in (("one", ""), ("other", "UPDATE wide SET c299 = 'order 18';"))
    )
    assert one.unread == {}
    assert {name.removeprefix("public."): table.count for name, table in one.tables.items()} == {
        **{"nothing": 1, "parts": 19, "base": 0, "child": 2, "empty": 0, "moods": 1, "wide": 1}
    }
    assert compare_content(one, one, against=CAPTURE, file="").is_same
    found = compare_content(one, other, against=CAPTURE, file="")
    assert {each.name: each.columns for each in found.different} == {"public.wide": {"c299": 1}}


LOCALE = """
    CREATE COLLATION alike (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
    CREATE TABLE "Straße" (id serial PRIMARY KEY, a text, price money, b text COLLATE alike);
    CREATE TABLE "Ärger" (a text);
    INSERT INTO "Straße" (a, price, b) SELECT 'Über Ä' || n, n / 3.0, 'X' FROM
        generate_series(1, 9) AS n ORDER BY {order};
    INSERT INTO "Ärger" SELECT 'straße ' || id FROM "Straße";
"""


def test_texts_of_two_locales_are_the_same(target):
    target.run("postgres", "DROP DATABASE IF EXISTS unicode")
    target.run(
        "postgres",
        "CREATE DATABASE unicode TEMPLATE template0 LOCALE 'C.UTF-8' LOCALE_PROVIDER icu"
        " ICU_LOCALE 'de'",
    )
    target.run("unicode", LOCALE.format(order="n"))
    captured = content_of(target, "unicode")
    assert captured.unread == {}
    now = content_of(target, target.make("c_locale", LOCALE.format(order="-n")))
    assert compare_content(captured, now, against=CAPTURE, file="").is_same


def test_a_file_of_another_version_is_refused(captured, tmp_path, monkeypatch):
    file = tmp_path / "old.rows"
    monkeypatch.setattr(row_content, "VERSION", 1)
    file.write_bytes(packed(captured))
    monkeypatch.undo()
    with pytest.raises(UsageError, match=r"format version 1; .* compares 2"):
        load_content(file)


def test_a_file_holds_all_of_it(captured, target, tmp_path):
    file = tmp_path / "x.rows"
    file.write_bytes(packed(captured))
    held = load_content(file)
    assert compared(held, target, NO_CHANGE).is_same
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(UsageError, match="has no rows to compare"):
        load_content(file)
    file.write_text("a diary")
    with pytest.raises(UsageError, match="seatrial sql rows"):
        load_content(file)
