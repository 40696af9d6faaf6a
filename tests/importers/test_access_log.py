"""Access logs of every format that is read, page by page."""

from __future__ import annotations

import gzip
import json
import random
import re
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seatrial.errors import UsageError
from seatrial.importers.access_log import is_access_log, read_access_log
from seatrial.importers.access_log.lines import clock_s, json_clock_s
from seatrial.importers.access_log.pages import PATTERNS_MAX, SLICES_MAX, Pages, fold, is_static
from seatrial.importers.access_log.reading import zstd

AGENT = '"https://shop.example/?q=\\"x\\" y" "Mozilla/5.0 (X11; \\"odd\\")"'

PACK = [("gzip", gzip.compress), ("zstd", zstd.compress)]


def common(number: int, target: str = "/order/{n}", status: int = 200, method: str = "GET") -> str:
    minute, second = divmod(number, 60)
    return (
        f"10.0.0.{number % 256} - bob [21/Nov/2026:08:{minute:02}:{second:02} +0100] "
        f'"{method} {target.format(n=number)} HTTP/1.1" {status} {number or "-"}'
    )


def combined(number: int, **what: object) -> str:
    return f"{common(number, **what)} {AGENT}"


def written(tmp_path, lines, name="access.log"):
    path = tmp_path / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("behind", "expected_s", "time_source"),
    [
        ("0.0{n:02}", 0.030, "in s"),  # nginx $request_time
        ('"0.0{n:02}" "0.001"', 0.030, "in s"),
        ("{n}000", 0.030, "in µs"),  # Apache %D
        ("rt=0.0{n:02} uct=0.000 urt=0.009", 0.030, "rt= in s"),
        ('uct="0.5" rt="0.0{n:02}" x', 0.030, "rt= in s"),
        ('"10.1.2.3" 0.0{n:02}', 0.030, "in s"),  # X-Forwarded-For before it
        ("{n}000 0.0{n:02}", 0.030, "in s"),  # $request_length first
        ("{n}000000 {n}", 30.0, "in µs"),  # %D %T
        ("{n} {n}000000", 30.0, "in µs"),
        ('"2.{n}" 0.0{n:02}', 0.030, "in s"),  # $gzip_ratio
        ("0.0{n:02} {n}00 0.001", 0.030, "in s"),  # $upstream_response_time behind
        ("0.001 0.0{n:02}", 0.030, "in s"),  # and before
        ("443 {n}000", 0.030, "in µs"),  # a port
        ("200 {n}000", 0.030, "in µs"),  # $upstream_status
        ("17952444{n}.123 0.0{n:02}", 0.030, "in s"),  # $msec
        ("{n}.250 ms", 0.03025, "in ms"),  # morgan's :response-time ms
    ],
)
@pytest.mark.parametrize("form", [common, combined])
def test_the_time_of_a_request_is_found_behind_the_line(
    tmp_path, form, behind, expected_s, time_source
):
    lines = [f"{form(n)} {behind.format(n=n)}" for n in range(10, 51)]
    path = written(tmp_path, lines)
    assert is_access_log(path)
    log = read_access_log([path])
    page = log.pages["GET /order/:n"]
    assert (page.calls, log.unread, log.untimed) == (41, 0, 0)
    assert page.total_s / page.calls == pytest.approx(expected_s)
    assert time_source in log.time_source


@pytest.mark.parametrize(
    ("row", "expected_s"),
    [
        # nginx, escape=json
        ({"time_iso8601": "2026-11-21T08:00:00+01:00", "request": "GET /order/7 HTTP/1.1",
          "status": "200", "request_time": "0.030"}, 0.030),
        # Caddy
        ({"ts": 1795244400.5, "request": {"method": "GET", "uri": "/order/7?x=1"}, "status": 200,
          "duration_s": 0.03}, 0.030),
        # Traefik
        ({"StartUTC": "2026-11-21T07:00:00.1Z", "RequestMethod": "GET", "RequestPath": "/order/7",
          "DownstreamStatus": 200, "Duration": 30_000_000}, 0.030),
        ({"@timestamp": "2026-11-21T08:00:00Z", "method": "GET", "path": "/order/7",
          "status_code": 200, "response_time_ms": 30}, 0.030),
        ({"time": 1795244400123, "method": "GET", "url": "https://h/order/7", "status": 200,
          "latency": "30ms"}, 0.030),
    ],
)  # fmt: skip
def test_json_lines_are_read(tmp_path, row, expected_s):
    path = written(tmp_path, [json.dumps(row)] * 5 + ["", json.dumps({"level": "info"})])
    log = read_access_log([path])
    page = log.pages["GET /order/:n"]
    assert (page.calls, log.unread) == (5, 1)
    assert page.total_s / page.calls == pytest.approx(expected_s)
    assert log.begin_s == pytest.approx(1795244400, abs=3700)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([combined(n) for n in range(30)], "contains no request times"),
        ([f"{combined(n)} {400 + n} {9_000 + n}" for n in range(30)], "--time-column"),  # %I %O
        ([f"{combined(n)} {400 + n} {900 + n} {70 * n}" for n in range(30)], "--time-column"),
        ([f"{combined(n)} {400 + n} 0" for n in range(30)], "--time-column"),  # %I %T
        ([f'{combined(n)} "2.{n:02}"' for n in range(30)], "--time-column 3"),  # $gzip_ratio
        ([f"{combined(n)} 0.0{n:02} 0.0{60 - n}" for n in range(10, 51)], "--time-column"),
        ([f"{combined(n)} {n % 3}" for n in range(30)], "--time-unit"),
        ([json.dumps({"path": "/", "status": 200})], "contains no request times"),
        ([json.dumps({"path": "/", "status": 200, "duration": 12})], "--time-unit"),
        (["2026-11-21 08:00:00 UTC LOG:  statement: SELECT 1"], "not a readable access log"),
        ([], "not a readable access log"),
    ],
)
def test_what_reports_no_time_is_refused_with_what_to_do(tmp_path, lines, words):
    with pytest.raises(UsageError, match=re.escape(words)):
        read_access_log([written(tmp_path, lines)])


def test_a_unit_can_be_stated(tmp_path):
    log = read_access_log([written(tmp_path, [f"{combined(n)} 3" for n in range(9)])], unit_s=1e-3)
    assert log.pages["GET /order/:n"].total_s == pytest.approx(9 * 3e-3)


INGRESS = (
    "{line} {length} 0.0{n:02} [default-shop-80] [] 10.0.0.9:80 {n}12 0.0{part:02} 200 "
    "b7c9a2f0e1d84c6b"
)


def test_the_format_of_ingress_nginx_has_its_length_before_the_time(tmp_path):
    lines = [
        INGRESS.format(line=combined(n), length=512 + n, n=n, part=n - 1) for n in range(10, 51)
    ]
    log = read_access_log([written(tmp_path, lines)])
    page = log.pages["GET /order/:n"]
    assert page.total_s / page.calls == pytest.approx(0.030)
    assert log.time_source == "column 4 after the bytes, in s"


def test_a_column_can_be_stated(tmp_path):
    path = written(tmp_path, [f"{combined(n)} {400 + n} {900 + n} {n}000" for n in range(10, 51)])
    log = read_access_log([path], column=5)
    assert log.pages["GET /order/:n"].total_s == pytest.approx(41 * 0.030)
    log = read_access_log([path], column=3, unit_s=1e-3)
    assert log.pages["GET /order/:n"].total_s == pytest.approx(41 * 0.430)
    for column, words in ((1, "shop.example"), (9, "contains no times")):
        with pytest.raises(UsageError, match=words):
            read_access_log([path], column=column)
    rows = written(tmp_path, [json.dumps({"path": "/", "status": 200, "duration_s": 1})], "j.log")
    with pytest.raises(UsageError, match="not columns"):
        read_access_log([rows], column=1)


def test_json_lines_with_the_local_time_of_nginx_have_a_timeline(tmp_path):
    rows = [
        {"time_local": f"21/Nov/2026:10:0{n}:00 +0000", "request": "GET /a HTTP/1.1",
         "status": "200", "request_time": "0.030"}
        for n in range(5)
    ]  # fmt: skip
    log = read_access_log([written(tmp_path, map(json.dumps, rows))])
    assert log.begin_s == 1795255200
    assert (log.end_s - log.begin_s, log.slices) == (240, 241)


@pytest.mark.parametrize("form", ["lines", "json"])
def test_a_line_without_a_clock_at_the_head_is_not_of_1970(tmp_path, form):
    if form == "json":
        row = {"path": "/a", "status": 200, "duration_s": 1}
        reported = [{**row, "ts": 1795244400 + n} for n in range(9)]
        lines = [json.dumps(row) for row in ({**reported[0], "ts": "-"}, *reported)]
    else:
        lines = [f"{combined(n, target='/a')} 1.000" for n in range(9)]
        lines.insert(0, lines[0].replace("21/Nov/2026", "99/Nov/2026"))
    log = read_access_log([written(tmp_path, lines)])
    assert log.pages["GET /a"].calls == 10
    assert log.slice_s == 1.0
    assert log.slices == 9


def test_pages_that_returned_errors_alone_are_reported(tmp_path):
    lines = [f"{combined(n)} 0.010" for n in range(30)]
    lines += [f"{combined(n, target='/gone', status=502)} 0.900" for n in range(3)]
    log = read_access_log([written(tmp_path, lines)])
    assert log.only_errors == {"GET /gone": 3}


def test_errors_static_files_dashes_and_garbage_are_counted_apart(tmp_path):
    lines = [
        *(f"{combined(n)} 0.010" for n in range(30)),
        f"{combined(1, status=500)} 0.900",
        f"{combined(2, target='/app.3f9a.js')} 0.001",
        f"{combined(3)} -",
        "what is this",
        f"{combined(4, target='/gone', status=404)} 0.900",
    ]
    log = read_access_log([written(tmp_path, lines)])
    page = log.pages["GET /order/:n"]
    assert (page.calls, page.errors) == (30, 1)
    assert page.total_s == pytest.approx(0.3)
    assert (log.lines, log.unread, log.untimed, log.static) == (35, 1, 1, 1)
    assert set(log.pages) == {"GET /order/:n"}


@pytest.mark.parametrize(("program", "pack"), PACK)
def test_pieces_packed_or_not_are_one_log(tmp_path, program, pack):
    plain = written(tmp_path, [f"{combined(n)} 0.010" for n in range(10)])
    packed = tmp_path / f"access.log.1.{program}"
    packed.write_bytes(pack(b"".join(f"{common(n)} 0.020\n".encode() for n in range(10))))
    log = read_access_log([plain, packed])
    page = log.pages["GET /order/:n"]
    assert (page.calls, round(page.total_s, 3)) == (20, 0.3)


def test_slices_add_up_and_are_bounded():
    rng = random.Random(1)
    pages = Pages()
    took = [(rng.random() * 90_000, rng.random()) for _ in range(3_000)]
    for at_s, took_s in took:
        pages.take("GET", "/x", 200, took_s, 1.8e9 + at_s)
    page = pages.finished()["GET /x"]
    assert pages.last - pages.first < SLICES_MAX
    assert set(page.slice_calls) <= set(range(pages.last - pages.first + 1))
    assert sum(page.slice_calls.values()) == page.calls == 3_000
    assert sum(page.slice_total_s.values()) == pytest.approx(sum(each for _, each in took))


def test_patterns_are_bounded_and_nothing_is_lost():
    pages = Pages()
    for number in range(3 * PATTERNS_MAX):
        name = "".join(chr(97 + int(digit)) for digit in str(number))
        pages.take("GET", f"/{name}", 200, 1.0 if number % 7 else 100.0, 1.8e9)
    found = pages.finished()
    assert len(found) <= PATTERNS_MAX
    assert sum(page.calls for page in found.values()) + pages.others == 3 * PATTERNS_MAX
    assert sum(page.total_s == 100.0 for page in found.values()) > PATTERNS_MAX / 5


def test_memory_does_not_grow_with_the_log(tmp_path):
    lines = [f"{combined(n % 3_000, target=f'/item/{n}')} 0.010" for n in range(20_000)]
    path = written(tmp_path, lines)
    tracemalloc.start()
    for _ in range(2):
        read_access_log([path] * 3)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 24 << 20


@pytest.mark.parametrize(
    ("target", "pattern"),
    [
        ("/order/17", "/order/:n"),
        ("/order/17/lines/3?tab=2#top", "/order/:n/lines/:n"),
        ("/", "/"),
        ("*", "*"),
        ("https://shop.example/a/9", "/a/:n"),
        ("https://shop.example", "/"),
        ("/api/v2/users/9", "/api/v2/users/:n"),
        ("/f/3f2504e0-4f89-41d3-9a0c-0305e82c3301/x", "/f/:uuid/x"),
        ("/commit/3f2504e04f89", "/commit/:hex"),
        ("/report-2024-01.pdf", "/report-:n-:n.pdf"),
        ("/t/dGhpcyBpcyBhIHRva2VuIDEyMw", "/t/:id"),
        ("/about-us", "/about-us"),
        ("/" + "x" * 100, "/:id"),
        ("/a;jsessionid=1", "/a"),
    ],
)
def test_ids_are_folded(target, pattern):
    assert fold(target) == pattern


def test_static_files_are_reported_by_their_ending():
    assert is_static(fold("/assets/app.3f2504e0.JS"))
    assert not is_static(fold("/report.pdf"))
    assert not is_static("/")
    assert not is_static("/css")


def test_clocks_agree():
    assert clock_s(b"21/Nov/2026:08:00:00 +0100") == 1795244400
    for reported in ("2026-11-21T08:00:00+01:00", 1795244400, 1795244400_000, "1795244400.0"):
        assert json_clock_s(reported) == 1795244400
    assert json_clock_s("yesterday") is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
ROW = st.fixed_dictionaries(
    {"path": JSON | st.just("/a"), "status": JSON | st.just(200), "ts": JSON},
    optional={"duration_s": JSON, "request_time": JSON, "request": JSON, "method": JSON},
)
LINE = (
    st.integers(0, 59).map(lambda n: f"{combined(n)} 0.0{n:02}".encode())
    | ROW.map(lambda row: json.dumps(row).encode())
    | st.binary(max_size=60)
    | st.tuples(
        st.integers(0, 59),
        st.text(st.characters(codec="utf-8", exclude_characters="{}"), max_size=40),
    ).map(lambda pair: f"{common(pair[0], target=pair[1])} {pair[1]}".encode())
)


@pytest.mark.parametrize(("program", "pack"), PACK)
def test_a_packed_log_that_was_cut_off_is_reported(tmp_path, program, pack):
    path = tmp_path / f"access.log.{program}"
    path.write_bytes(pack(b"GET\n" * 1_000)[:-6])
    with pytest.raises(UsageError, match="cannot be decompressed") as raised:
        read_access_log([path])
    assert f"`{program} -t {path}`" in raised.value.next_step


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(LINE, max_size=12))
def test_no_bytes_break_the_reader(tmp_path, lines):
    path = tmp_path / "any.log"
    path.write_bytes(b"\n".join(lines))
    try:
        log = read_access_log([path])
    except UsageError:
        return
    calls = sum(page.calls + page.errors for page in log.pages.values())
    assert calls + log.unread + log.untimed + log.static + log.others <= log.lines
    assert all(0 <= page.total_s < float("inf") for page in log.pages.values())
