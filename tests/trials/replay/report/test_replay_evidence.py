"""What a page shows of ids, order, divergence and start, and that it is silent without them."""

from __future__ import annotations

import msgspec

from report.page_reader import Node, read
from results.replay_records import FULL, IDS
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.report.page import render
from seatrial.results.model import StartRecord
from seatrial.results.replay import (
    CAPTURE,
    ReplayContent,
    ReplayIdClass,
    ReplayIds,
    TableDifference,
)
from seatrial.trials.replay.analysis.ids import ids_sentence
from seatrial.trials.replay.report.evidence_tables import ids_table, sequences_table
from seatrial.trials.replay.report.tables import replay_tables
from stats.builders import run_of
from trials.database.analysis.hand import MACHINE
from trials.replay.analysis.hand import sample_of
from trials.replay.report.replay_hand import TROUBLED

START = StartRecord(
    lsn="0/3000148",
    checkpoint_lsn="0/3000110",
    sequences={"public.orders_id_seq": 101},
    rows={"public.orders": 100, "public.lines": 400},
    rows_estimated={"public.history": 1e6, "public.empty": None},
    restored="reflink",
    duration_s=0.02,
)


def summary_with(**parts) -> Summary:
    """One round of a replay with these parts in its record, and a start that was looked at."""
    sample = sample_of(TROUBLED)
    record = msgspec.structs.replace(sample.replay, **parts)
    database = msgspec.structs.replace(sample.database, start=START)
    sample = msgspec.structs.replace(sample, replay=record, database=database)
    return summarise(run_of(before=MACHINE), [sample])


def shown(**parts) -> Node:
    return read(render(summary_with(**parts))).one(id="replay")


def rows_of(node: Node, title: str) -> list[list[str]]:
    """The rows of the table under this caption or in the fold of this title."""
    for table in node.all("table"):
        captions = table.all("caption")
        if captions and captions[0].text.startswith(title):
            return texts_of(table)
    (fold,) = [f for f in node.all("details") if f.one("summary").text.startswith(title)]
    return texts_of(fold.one("table"))


def texts_of(table: Node) -> list[list[str]]:
    return [
        [cell.text for cell in (*row.all("th"), *row.all("td"))]
        for row in table.one("tbody").all("tr")
    ]


def test_what_became_of_ids_is_one_sentence():
    assert ids_sentence(IDS) == (
        "15,997 of 16,000 IDs were mapped (12,000 proved, 3,997 by pattern), 3 unresolved"
    )
    every = ReplayIdClass(column="o.id", uses=16_000, exact=16_000)
    assert ids_sentence(ReplayIds(mode="infer", classes=[every])) == (
        "16,000 of 16,000 IDs were mapped (16,000 exact), 0 unresolved"
    )
    assert ids_sentence(ReplayIds(mode="off")) == "IDs were sent as captured"
    assert ids_sentence(ReplayIds(mode="infer")).startswith("No statement uses an ID")


def test_the_page_reports_ids_by_column_reason_and_pattern():
    node = shown(ids=IDS)
    text = node.text.replace("\u00a0", " ")
    assert "15,997 of 16,000 IDs were mapped" in text
    assert "RETURNING was added to 12 INSERTs" in text
    assert "30 with the time: now()" in text
    assert rows_of(node, "Generated IDs by column")[0] == [
        "public.orders.id", "16,000", "16,010", "16,020", "–", "12,000", "3,997", "3", "20",
    ]  # fmt: skip
    assert rows_of(node, "Unmapped IDs by reason")[0] == [
        "several inserts may have generated it", "2", "< 0.1 %",
    ]  # fmt: skip
    assert "5 values that may be IDs were not mapped" in text
    assert rows_of(node, "Unmapped IDs by reason")[-1] == [
        "possible IDs in function arguments", "5", "–",
    ]  # fmt: skip
    assert rows_of(node, "Unmapped IDs: first example")[0][1:3] == [
        "public.orders.id", "4711",
    ]  # fmt: skip
    assert rows_of(node, "Patterns")[0][2:] == [
        "public.orders.id", "12,000", "0", "used", "3,997",
    ]  # fmt: skip
    assert rows_of(node, "Sources of generated values")[0][1:3] == [
        "public.orders_id_seq", "public.lines.order_id",
    ]  # fmt: skip


def test_sequences_at_the_start_are_held_against_the_log():
    classes = [
        ReplayIdClass(column="a.id", source="a_seq", next_value_log=5, next_value_target=5),
        ReplayIdClass(column="b.id", source="b_seq", next_value_log=9, next_value_target=4),
        ReplayIdClass(column="c.id", source="c_seq", next_value_target=1),
        ReplayIdClass(column="d.id", source="random"),
    ]
    rows = sequences_table(ReplayIds(mode="infer", classes=classes), 1).rows
    assert rows == [
        ["a.id", "a_seq", "5", "5", "yes"],
        ["b.id", "b_seq", "9", "4", "no"],
        ["c.id", "c_seq", "unknown", "1", "unknown"],
    ]


def test_divergence_is_reported_by_class_with_rows_and_errors():
    rows = rows_of(shown(rows=FULL.rows), "Rows and errors by class")
    assert rows[0] == ["select", "300", "500", "498", "1", "0.3 %", "–", "–"]
    assert rows[1] == ["update", "100", "100", "100", "–", "0 %", "1", "2"]


def test_the_order_reports_what_it_kept_and_what_that_took():
    facts = dict(rows_of(shown(order=FULL.order), "Sessions, order"))
    assert facts["order"] == "key"
    assert facts["ordered pairs of statements"] == "1,400"
    assert facts["CPU time per ordered pair"] == "310 ns"
    assert facts["CPU time per scheduled statement"] == "620 ns"
    assert facts["delayed by a statement on the same key"] == "2"


def test_what_it_began_with_is_reported():
    facts = dict(rows_of(shown(), "Start state"))
    assert facts["restored by"].startswith("reflink of")
    assert facts["tables counted"] == "2, 500 rows"
    assert facts["tables estimated (ANALYZE)"] == "2, about 1,000,000 rows"
    assert facts["last checkpoint (LSN)"] == "0/3000110"


def plain(text: str) -> str:
    return " ".join(text.split())


def test_tables_that_differ_are_shown():
    table = TableDifference(
        name="public.orders", rows_captured=600, rows_now=599, rows_different=36,
        columns={"seen": 35},
    )  # fmt: skip
    content = ReplayContent(
        against=CAPTURE, tables=5, rows=9, different=[table],
        not_compared={"public.large": "beyond 256 MiB of tables"},
    )  # fmt: skip
    node = shown(content=content)
    assert "Rows differ from the capture in 1 of 5 tables" in plain(node.text)
    rows = rows_of(node, "Tables whose rows differ from the capture")
    assert rows == [
        ["public.orders", "600", "599", "36", "seen 35"],
        ["public.large", "–", "–", "–", "not compared: beyond 256 MiB of tables"],
    ]
    assert "replay-content-1" in [
        replay_table.id for replay_table in replay_tables(summary_with(content=content))
    ]


def test_rows_that_were_not_compared_say_why():
    node = shown(content=ReplayContent(reason="the trace holds stand-ins"))
    reported = "Table contents were not compared: the trace holds stand-ins."
    assert reported in plain(node.text)


def test_ids_that_were_not_mapped_on_demand_have_no_tables():
    node = shown(ids=ReplayIds(mode="off", classes=IDS.classes))
    assert "IDs were sent as captured." in node.text
    assert "Generated IDs" not in node.text


def test_an_old_file_knows_nothing_of_it_and_its_page_neither():
    sample = sample_of(TROUBLED)
    assert sample.replay.ids is None
    page = render(summarise(run_of(before=MACHINE), [sample]))
    assert "Correctness of rows" not in page


def test_the_terminal_reports_ids_and_divergence_within_its_width():
    summary = summary_with(ids=IDS, rows=FULL.rows)
    names = [table.id for table in replay_tables(summary)]
    for name in ("replay-ids-1", "replay-ids-unresolved-1", "replay-divergence-1"):
        assert name in names
    assert len(ids_table(IDS, 1).rows) == 2


def test_no_text_of_a_log_becomes_markup():
    evil = "<script>alert(1)</script>"
    example = msgspec.structs.replace(IDS.examples[0], text=evil, value=evil, column=evil)
    page = render(summary_with(ids=msgspec.structs.replace(IDS, examples=[example])))
    assert evil not in page
