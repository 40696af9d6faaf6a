"""The command holds the rows that it left against those of the captured database."""

from __future__ import annotations

from cli.command import seatrial
from trials.replay.targets import record_in, replay

ORDERS = 30
PREPARE = """
    CREATE TABLE orders (id serial PRIMARY KEY, key bigint UNIQUE, seen bigint, at timestamptz);
    CREATE TABLE events (key bigint, note text);
    INSERT INTO orders (key) SELECT -n FROM generate_series(1, 50) AS n;
"""
"""What is there before."""
LOAD = "".join(
    f"INSERT INTO orders (key, at) VALUES ({key}, now());\n"
    f"UPDATE orders SET seen = {key} WHERE id = {50 + key};\n"
    f"INSERT INTO events VALUES ({key}, 'order {50 + key}');\n"
    for key in range(1, ORDERS + 1)
)


def prepared(target, folder, *further: str):
    """Make a trace, a captured database with its rows kept with it, and what a replay loads."""
    (folder / "load.sql").write_text(LOAD)
    trace = folder / "load.trace"
    read = seatrial("sql", "read", "--format", "raw", folder / "load.sql", "-o", trace,
                    folder=folder)  # fmt: skip
    assert read.code == 0, read.err
    captured = target.make("compared", PREPARE + LOAD)
    rows = seatrial("sql", "rows", target.url(captured), "-o", f"{trace}.rows", folder=folder)
    assert rows.code == 0, rows.err
    assert "110 rows of 2 tables of compared" in rows.out
    (folder / "prepare.sql").write_text("".join([PREPARE, *further]))
    (folder / "there").mkdir()
    return trace, ("--prepare", folder / "prepare.sql", "--start", "warm")


def test_a_replay_that_leaves_the_captured_rows_says_so(target, tmp_path):
    trace, options = prepared(target, tmp_path)
    ended = replay(trace, tmp_path / "there", *options, folder=tmp_path)
    assert ended.code == 0, ended.out + ended.err
    reported = " ".join(ended.out.split())
    assert "The rows of 2 tables equal the capture (110 rows)" in reported
    assert "timestamps or random values ignored: public.orders.at" in reported
    content = record_in(tmp_path).content
    assert content is not None
    assert content.is_same


def test_other_rows_end_with_4_and_are_named(target, tmp_path):
    # The server numbers orders otherwise, and ids are sent as captured: nothing else tells.
    trace, options = prepared(target, tmp_path, "SELECT setval('orders_id_seq', 60);")
    ended = replay(trace, tmp_path / "there", *options, "--ids", "off", folder=tmp_path)
    assert ended.code == 4, ended.out + ended.err
    reported = " ".join(ended.out.split())
    assert reported.startswith("Replay has faults: rows differ from the capture in 2 of 2 tables")
    differs = {each.name: each for each in record_in(tmp_path).content.different}
    assert differs["public.orders"].columns.keys() == {"seen"}
    assert differs["public.events"].columns == {"note": ORDERS}


def test_rounds_are_held_against_the_first_where_nothing_reports_of_the_capture(target, tmp_path):
    trace, options = prepared(target, tmp_path)
    (tmp_path / "load.trace.rows").unlink()
    ended = replay(trace, tmp_path / "there", *options, "--rounds", "2", folder=tmp_path)
    assert ended.code == 0, ended.out + ended.err
    content = record_in(tmp_path, sample=1).content
    assert (content.against, content.file) == ("replay", "round 1 on target")
    assert (content.tables, content.different) == (2, [])


def test_a_file_that_holds_no_rows_is_refused_at_once(target, tmp_path):
    trace, options = prepared(target, tmp_path)
    (tmp_path / "load.trace.rows").write_text("a diary")
    ended = replay(trace, tmp_path / "there", *options, folder=tmp_path)
    assert ended.code == 2
    assert "has no rows to compare" in ended.err
