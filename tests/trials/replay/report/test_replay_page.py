"""The page of a replay: its verdict, the account that adds up, charts as data, all in tables."""

from __future__ import annotations

import msgspec

from findings.analyses import with_analyses
from report.page_reader import Node, embedded, read
from seatrial.findings.model import Summary
from seatrial.findings.summary import summarise
from seatrial.report.document import BYTES_MAX
from seatrial.report.page import render
from seatrial.report.part import Detail
from seatrial.trials.replay.analysis.model import replays_of
from seatrial.trials.replay.report.section import replay_part
from trials.replay.analysis.hand import Play
from trials.replay.report.replay_hand import paced, several, summary_of, troubled

WHOLE = Detail(heat_views_max=60, every_figure=True, rounds_max=9, timelines_max=9)


def page(summary: Summary) -> Node:
    return read(render(summary))


def figure_data(document: Node, identifier: str) -> dict:
    (found,) = [f for f in embedded(document)["figures"] if f["id"] == identifier]
    return found


def rows_of(document: Node, title: str) -> list[list[str]]:
    """The rows of the first table with this caption, labels first."""
    for table in document.all("table"):
        captions = table.all("caption")
        if captions and captions[0].text.startswith(title):
            (body,) = table.all("tbody")
            return [
                [cell.text for cell in row.all() if cell.name in ("th", "td")]
                for row in body.all("tr")
            ]
    raise AssertionError(title)


def classes_of(node: Node) -> list[str]:
    return (node.attributes.get("class") or "").split()


def numbers(texts: list[str]) -> list[int]:
    return [0 if text == "–" else int(text.replace(",", "")) for text in texts]


def test_findings_then_the_replay_then_its_database():
    parts = [node.attributes.get("id") for node in page(troubled()).one("main").all()]
    assert parts.index("findings") < parts.index("replay") < parts.index("database")


def test_the_bottleneck_is_the_first_sentence_and_the_account_the_second():
    replay = page(troubled()).one(id="replay")
    first, second, *_ = [node for node in replay.all("p") if "verdict" in classes_of(node)]
    assert first.text.startswith("The disk was the bottleneck: ")
    reported = second.text.replace("\N{NO-BREAK SPACE}", " ")
    assert "11,707 of 12,000 statements were sent, 293 skipped, 20 new errors" in reported


def test_the_account_adds_up_by_row_and_by_column():
    for summary in (troubled(), paced(), summary_of(Play(ended_at_share=0.6, end="server_lost"))):
        *classes, total = rows_of(page(summary), "Outcome of all captured statements")
        for row in [*classes, total]:
            captured, *parts = numbers(row[1:])
            assert captured == sum(parts), row
        columns = zip(*(numbers(row[1:]) for row in classes), strict=True)
        assert [sum(column) for column in columns] == numbers(total[1:])
        assert total[0] == "all"


def test_at_maximum_speed_replay_and_capture_stand_over_their_own_times():
    figure = figure_data(page(troubled()), "replay-time-1")
    replay, capture = figure["views"][0]["panels"]
    assert replay["title"] == "Replay (13 s)"
    assert capture["title"] == "Capture (1 min)"
    assert replay["x"]["high"] < 15 < capture["x"]["high"] == 60
    assert replay["y"] == capture["y"]
    assert any("separate time axes" in note for note in figure["notes"])


def test_under_a_pace_what_was_requested_and_the_lag_stand_on_the_replay_s_time():
    figure = figure_data(page(paced()), "replay-time-1")
    rates, lag = figure["views"][0]["panels"]
    assert [line["name"] for line in rates["lines"]][:2] == ["replayed", "requested"]
    assert lag["below"] is True
    assert lag["x"] == rates["x"]
    assert [line["name"] for line in lag["lines"]] == ["lag, mean", "lag, max"]


def test_the_lines_hold_as_many_statements_as_were_played():
    figure = figure_data(page(troubled()), "replay-time-1")
    replay, capture = figure["views"][0]["panels"]
    sample = troubled().cells[0].samples[replays_of(troubled())[0].reported_round]
    points = replay["lines"][0]["points"]
    step_s = 1.0
    whole = sum(point[1] for point in points[:-1]) * step_s
    last_s = sample.duration_s - (len(points) - 1) * step_s
    assert round(whole + points[-1][1] * last_s) == sample.replay.total.sent
    assert round(sum(point[1] for point in capture["lines"][0]["points"])) == 12_000


def test_every_figure_has_a_frame_and_a_table_of_its_numbers():
    for summary in (troubled(), paced(), several()):
        document = page(summary)
        for figure in embedded(document)["figures"]:
            assert document.one("figure", id=f"figure-{figure['id']}")
            assert document.one(id=figure["table"])


def test_the_timeline_in_numbers_has_every_step():
    document = page(paced())
    (body,) = document.one(id="table-replay-time-1").all("tbody")
    figure = figure_data(document, "replay-time-1")
    rates, _ = figure["views"][0]["panels"]
    assert len(body.all("tr")) == max(len(line["points"]) for line in rates["lines"])


def test_queries_report_now_at_the_client_next_to_captured_on_the_server():
    document = page(troubled())
    figure = figure_data(document, "replay-queries-1")
    remarks = [row["remark"] for row in figure["views"][0]["rows"]]
    assert remarks[0].startswith("replay (client)")
    assert remarks[1].startswith("capture (server)")
    assert "logged by the server" in figure["notes"][0]
    table = document.one(id="table-replay-queries-1")
    groups = [node.text for node in table.all("th") if "group" in classes_of(node)]
    assert groups[1:] == ["replay (client)", "capture (server)"]
    first = rows_of(document, "Queries by total time")[0]
    assert first[0].startswith("SELECT o.id, o.total, c.name FROM orders o JOIN customers")
    assert first[0].endswith("LIMIT $3")  # a page has the whole of it
    assert first[-3:] == ["14 ms", "28 ms", "56 ms"]


def test_a_capture_without_durations_has_no_columns_for_them():
    summary = troubled()
    cells = [
        msgspec.structs.replace(
            part,
            samples=[
                msgspec.structs.replace(
                    sample,
                    replay=msgspec.structs.replace(
                        sample.replay,
                        queries=[
                            msgspec.structs.replace(query, captured_known=0)
                            for query in sample.replay.queries
                        ],
                    ),
                )
                for sample in part.samples
            ],
        )
        for part in summary.cells
    ]
    document = page(msgspec.structs.replace(summary, cells=cells))
    assert "capture (server)" not in document.one(id="table-replay-queries-1").text
    rows = figure_data(document, "replay-queries-1")["views"][0]["rows"]
    assert all(row["remark"].startswith("replay") for row in rows)


def with_trace(summary: Summary, **reported: str) -> Summary:
    """The same run, of a trace that says this of itself."""
    samples = [
        msgspec.structs.replace(
            sample, replay=msgspec.structs.replace(sample.replay, trace=dict(reported))
        )
        for sample in summary.cells[0].samples
    ]
    return summarise(summary.run, samples)


def test_of_a_capture_without_a_clock_no_timeline_is_drawn():
    document = page(with_trace(troubled(), clock="no", path="/srv/lines.sql"))
    (panel,) = figure_data(document, "replay-time-1")["views"][0]["panels"]
    assert [line["name"] for line in panel["lines"]] == ["replayed"]
    (row,) = rows_of(document, "Statements per second, compared with the capture")
    assert row[-4:-1] == ["–", "–", "–"]
    assert "/srv/lines.sql" in document.one(id="replay").text


def test_errors_rows_and_reasons_are_reported_with_examples():
    document = page(troubled())
    reasons = rows_of(document, "Skipped statements by reason")
    assert [(row[0], row[1], row[2]) for row in reasons] == [
        ("COPY data are not logged", "log", "240"),
        ("truncated by the log", "log", "50"),
        ("write statement", "requested", "3"),
    ]
    errors = rows_of(document, "Errors, compared with")
    assert errors[0] == ["new: not in the capture", "20"]
    examples = rows_of(document, "Most frequent errors")
    assert examples[0][1:5] == ["new", "–", "40P01", "20"]
    assert "deadlock detected" in examples[0]
    rows = rows_of(document, "Rows and results")
    assert rows[0][1:3] == ["1,000", "40"]
    assert rows_of(document, "Different row counts")[0][1:4] == ["20", "3", "SELECT 3"]


def test_a_replay_that_is_well_has_no_tables_of_trouble():
    text = page(summary_of(Play())).one(id="replay").text
    for title in ("Most frequent errors", "Different row counts", "Errors, compared with"):
        assert title not in text


def test_several_replays_are_one_table_and_fold():
    document = page(several())
    replay = document.one(id="replay")
    rates = rows_of(document, "Statements per second, compared with the capture")
    assert [row[2] for row in rates] == ["1x", "2.5x", "max"] * 2
    assert {row[0] for row in rates} == {"hdd", "ssd"}
    folded = [node for node in replay.all("details") if "cell" in classes_of(node)]
    assert len(folded) == 6
    headings = [node.all("summary")[0].text for node in folded]
    assert headings[0].startswith("hdd, speed 1: ")
    assert headings[1].endswith("bottleneck: pace")


def test_texts_of_a_log_are_no_markup():
    summary = troubled()
    (part,) = summary.cells
    evil = "SELECT '<script>alert(1)</script>'"
    samples = []
    for sample in part.samples:
        first, *others = sample.replay.queries
        queries = [msgspec.structs.replace(first, text=evil), *others]
        record = msgspec.structs.replace(sample.replay, queries=queries)
        samples.append(msgspec.structs.replace(sample, replay=record))
    shown = render(
        msgspec.structs.replace(summary, cells=[msgspec.structs.replace(part, samples=samples)])
    )
    assert "<script>alert(1)" not in shown
    assert "alert(1)" in shown


def test_a_page_without_replays_has_no_part_for_them():
    none = with_analyses(troubled(), replays=[])
    assert replay_part(none, WHOLE).figures == []
    assert "Replay</a>" not in render(none)


def test_a_long_replay_fits_a_page():
    long = summary_of(Play(captured_s=1_800.0, speed=2.0, captured_per_s=40.0), rounds=1)
    assert len(render(long).encode()) <= BYTES_MAX
    figure = figure_data(page(long), "replay-time-1")
    assert len(figure["views"][0]["panels"][0]["lines"][0]["points"]) <= 120
