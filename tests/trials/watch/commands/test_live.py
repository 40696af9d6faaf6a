"""The server of the live page with a real HTTP client: who may ask, and what is kept for whom."""

from __future__ import annotations

import itertools
import json
import re
import signal
import time
from collections.abc import Iterator

import pytest

from cli.command import ended, seatrial, start

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'seatrial[serve]'")

from seatrial.trials.watch.analysis.events import Mark
from seatrial.trials.watch.analysis.history import History
from seatrial.trials.watch.commands.live import Feed, LivePage
from seatrial.trials.watch.report.page import Startup
from trials.watch.client import Client

EVERY_S = "0.2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("live")


@pytest.fixture(scope="module")
def client(folder) -> Iterator[Client]:
    process = start("watch", "--port", "0", "--every", EVERY_S, folder=folder)
    assert process.stderr
    lines = ""
    while "metrics?token=" not in lines:
        line = process.stderr.readline()
        assert line, lines
        lines += line
    page = re.search(r"^Page, .*http://127\.0\.0\.1:(\d+)/\?token=(\S+)$", lines, re.M)
    metrics = re.search(r"^Metrics: .*token=(\S+)$", lines, re.M)
    assert page, lines
    assert metrics, lines
    made = Client(int(page[1]), page[2], metrics[1])
    for path in ("/", "/events", "/metrics", "/metrics?token=x"):
        assert made.ask(path)[0] == 403, path
    assert made.ask(f"/?token={made.token}x")[0] == 403
    assert made.ask(f"/?token={made.token}", Host="evil.example")[0] == 421
    entered = made.open(f"/?token={made.token}")
    assert entered.status == 200
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "Max-Age=86400" in cookie  # so that a browser that was closed is let in again
    made.cookie = cookie.partition(";")[0]
    yield made
    process.send_signal(signal.SIGINT)
    last = ended(process, 30)
    assert last.code == 0, last


def test_the_token_works_once(client):
    other = Client(client.port, client.token, "")
    assert other.ask(f"/?token={client.token}")[0] == 403
    assert client.ask("/")[0] == 200


def test_the_page_asks_its_own_server_alone(client):
    _, page = client.ask("/")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy
    assert "default-src &#39;none&#39;" in policy[1]
    assert "connect-src &#39;self&#39;" in policy[1]
    assert "Limits: " in page
    assert "Cost of watching, as measured: " in page


def test_a_new_connection_gets_all_and_one_that_was_lost_the_rest(client):
    first = client.events(4)
    assert first[0][1] == "startup"
    assert first[0][2]["resumed"] is False
    assert first[0][2]["level"] in (1, 2)
    numbers = [number for number, _, _ in first[1:]]
    assert numbers[0].endswith(":1")  # all from the start
    time.sleep(0.5)
    later = client.events(4, last_id=numbers[-1])
    assert later[0][2]["resumed"] is True
    expected = int(numbers[-1].partition(":")[2]) + 1
    assert [int(each[0].partition(":")[2]) for each in later[1:]] == [
        *range(expected, expected + 3)
    ]
    again = client.events(5)
    assert again[1:4] == first[1:]  # as after the browser was closed


def test_a_number_of_another_watch_starts_anew(client):
    startup, first = client.events(2, last_id="00000000:3")
    assert startup[2]["resumed"] is False
    assert first[0].endswith(":1")


def test_intervals_follow_one_another(client):
    intervals = [data for _, sort, data in client.events(6) if sort == "interval"]
    assert len(intervals) >= 3
    for earlier, later in itertools.pairwise(intervals):
        assert later["at"] - later["seconds"] == pytest.approx(earlier["at"], abs=0.05)
        assert later["cost"] >= 0


def test_metrics_need_their_own_token_or_the_page(client):
    stranger = Client(client.port, "", client.metrics_token)
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Bearer"}):
        assert stranger.ask("/metrics", **headers)[0] == 403
    by_query = stranger.open(f"/metrics?token={client.metrics_token}")
    assert by_query.status == 200
    assert by_query.headers["content-type"].startswith("application/openmetrics-text")
    status, text = stranger.ask("/metrics", Authorization=f"Bearer {client.metrics_token}")
    assert (status, text.endswith("# EOF\n")) == (200, True)
    as_messages = stranger.open(
        f"/metrics?token={client.metrics_token}", Accept="application/vnd.google.protobuf"
    )
    assert as_messages.headers["content-type"].startswith("application/vnd.google.protobuf; proto=")
    assert b"seatrial_watch_info" in as_messages.read()
    assert stranger.ask(f"/?token={client.metrics_token}")[0] == 403  # it is not the page's


def test_markers_reach_the_page_from_the_page_and_the_command(client, folder):
    marked = seatrial("mark", "from a shell", folder=folder)
    assert (marked.code, marked.out) == (0, "Marked in 1 watch.\n"), marked
    assert client.ask("/mark", "from the page") == (200, "Marked.")
    assert client.ask("/mark", "")[0] == 409
    assert client.ask("/mark", "x", Origin="http://evil.example")[0] == 403
    texts = [data["text"] for _, sort, data in client.events(2, sort="mark") if sort == "mark"]
    assert texts == ["from a shell", "from the page"]


def test_a_report_is_one_file_with_the_data(client):
    sheet = {"seatrial_worksheet": 1, "charts": [], "filters": {}, "span_s": 60}
    status, page = client.ask("/report", json.dumps(sheet))
    assert status == 200
    assert page.startswith("<!DOCTYPE html>")
    assert "connect-src" not in page
    assert "Since the start of the watch" in page
    assert client.ask("/report", "no JSON")[0] == 400
    assert client.ask("/report", "[]")[0] == 400
    assert client.ask("/report", json.dumps(sheet), Origin="")[0] == 403


def test_a_port_that_is_taken_is_named(client, folder):
    taken = seatrial("watch", "--port", client.port, folder=folder)
    assert taken.code == 2, taken
    assert f"Port {client.port} of 127.0.0.1 cannot be used" in taken.err


def test_without_a_watch_a_marker_is_refused(tmp_path):
    refused = seatrial("mark", "x", folder=tmp_path)
    assert refused.code == 2, refused
    assert "No watch of this user is running" in refused.err


def test_what_is_no_longer_kept_is_counted():
    startup = Startup(watched="x", level=1, sees="", lacks="", cost="", reason="", started_at=0.0,
                  every_s=1.0, has_server=False, history_s=1.0, history_bytes_max=1,
                  rows_per_doubling=16, version="0")  # fmt: skip
    feed = Feed(startup)
    feed.history = History(bytes_max=30)
    page = LivePage(feed, 0)
    try:
        found = re.search(r":(\d+)/\?token=(\S+)", page.address)
        assert found
        own = Client(int(found[1]), found[2], "")
        own.cookie = own.open(f"/?token={own.token}").headers["set-cookie"].partition(";")[0]
        for number in range(10):
            feed.mark(Mark(at=float(number), text="x"))
        kept = [each.number for each in feed.history.after(0)]
        assert kept[0] > 3
        events = own.events(2 + len(kept), last_id=f"{feed.history.session}:2")
        assert [sort for _, sort, _ in events[:2]] == ["startup", "skipped"]
        assert events[1][2] == {"events": kept[0] - 3}
        assert [int(each[0].partition(":")[2]) for each in events[2:]] == kept
    finally:
        page.stop()
