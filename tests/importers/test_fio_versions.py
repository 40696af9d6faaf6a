"""fio's JSON of every version: keys and units as stat.c and client.c of the time print them."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from seatrial.errors import UsageError
from seatrial.findings.summary import summarise
from seatrial.importers import read_results
from seatrial.report.exports import export
from seatrial.report.table import latency_text
from seatrial.results.model import origin_of
from seatrial.stats.compare.figures import figures_of_both

from .fio_runs import direction, document, job, latency

PERCENTILES = {"50.000000": 90_000, "99.000000": 400_000}
LATENCIES = ("slat", "clat", "lat")


def read(folder: Path, *contents: dict, before: str = "", prefix: str = ""):
    text = before + "\n".join(json.dumps(content, indent=2) for content in contents) + "\n"
    place = folder / "fio.json"
    place.write_text("".join(f"{prefix}{line}\n" for line in text.splitlines()), encoding="utf-8")
    return read_results(place)


def summary(count=1000, size_bytes=4096):
    """One direction with percentiles and no bins, as plain JSON has it."""
    return direction(count, size_bytes, percentile=PERCENTILES)


def before_3_18(part: dict) -> dict:
    """fio 2.99 to 3.17 print no N."""
    part = copy.deepcopy(part)
    for name in LATENCIES:
        part[f"{name}_ns"].pop("N")
    return part


def before_2_99(part: dict, *, kib: bool) -> dict:
    """Latencies in microseconds; before fio 2.21 bytes in KiB, since then also io_kbytes."""
    part = before_3_18(part)
    for name in LATENCIES:
        old = part.pop(f"{name}_ns")
        for key in ("min", "max", "mean"):
            old[key] /= 1000
        if "percentile" in old:
            shown = {percent: value // 1000 for percent, value in old["percentile"].items()}
            old["percentile"] = shown | {"0.00": 0}
        part[name] = old
    if kib:
        return part | {"io_bytes": part["io_bytes"] >> 10, "iops": float(part["total_ios"])}
    return part | {"io_kbytes": part["io_bytes"] >> 10}


def before_2_1_14(part: dict) -> dict:
    """Neither the number of requests nor decimals of IOPS."""
    part = before_2_99(part, kib=True)
    seconds = part["runtime"] / 1000
    part["iops"] = int(part.pop("total_ios") / seconds) if seconds else 0
    return part


def parsed(version: str, change, options: dict | None = None, **parts: dict) -> dict:
    """A document of a version with one job, whose directions are printed as it prints them."""
    own = {name: change(parts.get(name, direction())) for name in ("read", "write", "trim")}
    entry = job(options=options or {}) | own
    if version < "fio-2.3":
        del entry["job options"]
    return document(entry, **{"fio version": version})


def same(part: dict) -> dict:
    return part


LAYOUTS = {
    "fio-2.1.4": before_2_1_14,
    "fio-2.2.10": lambda part: before_2_99(part, kib=True),
    "fio-2.16": lambda part: before_2_99(part, kib=True),
    "fio-2.21": lambda part: before_2_99(part, kib=False),
    "fio-3.1": before_3_18,
    "fio-3.16": before_3_18,
    "fio-3.18": same,
}


@pytest.mark.parametrize("version", LAYOUTS)
def test_each_version_gives_the_same_rate_bytes_and_latencies(tmp_path, version):
    imported = read(tmp_path, parsed(version, LAYOUTS[version], read=summary(1234, 8192)))
    (sample,) = imported.samples
    result = sample.operations["read"]
    assert (result.completed, result.transferred_bytes) == (1234, 1234 * 8192)
    assert sample.completed_per_s == pytest.approx(1234)
    assert result.reported_ns == {
        "mean": pytest.approx(98_000),
        "min": pytest.approx(50_000),
        "max": pytest.approx(900_000),
        "p50": 90_000,
        "p99": 400_000,
    }


@pytest.mark.parametrize("version", ["fio-2.1.4", "fio-2.2.10"])
def test_without_options_only_what_the_figures_say_is_claimed(tmp_path, version):
    imported = read(tmp_path, parsed(version, LAYOUTS[version], read=summary(700, 512 << 10)))
    (sample,) = imported.samples
    assert sample.cell.block_size_bytes == 512 << 10
    assert sample.cell.factors == {"pattern": "unknown"}
    assert "direct" not in sample.cell.spec["target"]
    assert "printed no job options" in " ".join(origin_of(imported.run).notes)


def test_jobs_without_options_are_rounds_only_if_their_names_are_equal(tmp_path):
    jobs = [job("qd1", 0), job("qd32", 1, reads=9000), job("qd32", 2, reads=9000)]
    for each in jobs:
        del each["job options"]
    found = read(tmp_path, document(*jobs, **{"fio version": "fio-2.2.10"}))
    assert [sample.cell.factors["job"] for sample in found.samples] == ["qd1", "qd32", "qd32"]
    assert [sample.round for sample in found.samples] == [0, 0, 1]


def test_whole_iops_stand_in_where_no_block_size_gives_the_requests(tmp_path):
    part = summary(100_000, 48 << 10) | {"runtime": 3001}
    imported = read(tmp_path, parsed("fio-2.1.4", before_2_1_14, read=part))
    rate_per_s = imported.samples[0].completed_per_s
    assert rate_per_s == pytest.approx(100_000 / 3.001, abs=1)
    assert "no number of requests" in " ".join(origin_of(imported.run).notes)


def test_threads_without_options_are_no_rounds(tmp_path):
    entry = parsed("fio-2.1.4", before_2_1_14, read=summary())["jobs"][0]
    imported = read(tmp_path, document(entry, entry, **{"fio version": "fio-2.1.4"}))
    (sample,) = imported.samples
    assert (sample.completed_per_s, sample.cell.threads) == (2000, 2)


@pytest.mark.parametrize("by_number", [True, False])
def test_bins_of_fio_2_are_in_microseconds_whether_by_number_or_by_middle(tmp_path, by_number):
    # Bucket 130 of fio's histogram begins at 132 us and is 2 us wide.
    bins = {"40": 600, "130" if by_number else "133": 400}
    if by_number:
        bins |= {"FIO_IO_U_PLAT_BITS": 6, "FIO_IO_U_PLAT_VAL": 64, "131": 0}
    content = parsed("fio-2.16", LAYOUTS["fio-2.16"], read=summary())
    content["jobs"][0]["read"]["clat"] |= {"bins": bins, "min": 40, "max": 134}
    (sample,) = read(tmp_path, content).samples
    histogram = sample.operations["read"].response_histogram()
    assert histogram.count == 1000
    assert histogram.percentile_ns(50) == pytest.approx(40_000, rel=0.01)
    assert histogram.percentile_ns(99) == pytest.approx(133_000, rel=0.01)


def test_cpu_time_is_not_claimed_before_fio_prints_what_it_is_a_share_of(tmp_path):
    content = parsed("fio-3.1", before_3_18, read=summary())
    del content["jobs"][0]["job_runtime"]
    (sample,) = read(tmp_path, content).samples
    assert not any(name.startswith("cpu") for name in sample.counters)


# What fio reports and nobody can compute again.


def reported(folder: Path, *p99_ns: int):
    contents = []
    for number, value_ns in enumerate(p99_ns):
        part = direction(1000, percentile={"99.000000": value_ns})
        content = document(job(read=before_3_18(part)), timestamp=1795258597 + 60 * number)
        contents.append(content)
    return read(folder, *contents)


def test_a_reported_percentile_is_shown_as_printed_and_marked_everywhere(tmp_path):
    imported = reported(tmp_path, 400_000)
    summary = summarise(imported.run, imported.samples)
    figures = summary.cells[0].latency["read"]
    assert {name: each.over for name, each in figures.items()} == dict.fromkeys(
        ("p99", "mean", "max"), "reported"
    )
    assert (figures["p99"].value, figures["max"].value) == (400_000, 900_000)
    assert latency_text(figures, "p99") == "400 µs†"
    assert any("† Response times are as reported by fio-3.33" in n for n in notes(imported))
    assert ",reported," in export(summary, "csv")
    (cell,) = json.loads(export(summary, "json"))["cells"]
    assert cell["latency"]["read"]["p99"]["over"] == "reported"


def notes(imported):
    return origin_of(imported.run).notes


def test_a_reported_percentile_is_never_averaged_over_rounds(tmp_path):
    imported = reported(tmp_path, 400_000, 800_000)
    figure = summarise(imported.run, imported.samples).cells[0].latency["read"]["p99"]
    assert (figure.low, figure.high, figure.rounds) == (400_000, 800_000, 2)
    assert figure.value == 800_000
    assert latency_text({"p99": figure}, "p99") == "400 µs to 800 µs†"
    both = figures_of_both(imported.samples, imported.samples)
    assert "read p99" not in both.a


def test_a_reported_percentile_is_compared_with_a_reported_one_only(tmp_path):
    of_fio = reported(tmp_path, 400_000).samples
    own = read(tmp_path, document(job(read=direction(1000, bins={"98048": 1000})))).samples
    assert "read p50" in figures_of_both(own, own).a
    assert "read p99" in figures_of_both(of_fio, of_fio).a
    assert "read p99" not in figures_of_both(of_fio, own).a
    assert "read p99" not in figures_of_both(own, of_fio).a


def test_a_percentile_that_was_not_reported_is_not_said_to_have_too_few_requests(tmp_path):
    imported = reported(tmp_path, 400_000)
    figures = summarise(imported.run, imported.samples).cells[0].latency["read"]
    assert latency_text(figures, "p50") == "–"


# unified_rw_reporting


@pytest.mark.parametrize(
    ("version", "change"), [(v, c) for v, c in LAYOUTS.items() if v > "fio-2.1"]
)
@pytest.mark.parametrize(("rw", "kind"), [("randrw", "mixed"), ("randread", "read")])
def test_reads_and_writes_reported_as_one_are_counted(tmp_path, version, change, rw, kind):
    entry = job(options={"rw": rw})
    for name in ("read", "write", "trim"):
        del entry[name]
    content = document(entry | {"mixed": change(summary(500))}, **{"fio version": version})
    imported = read(tmp_path, content)
    (sample,) = imported.samples
    assert sample.operations[kind].completed == 500
    assert sample.cell.operation == kind
    assert sample.operations[kind].reported_ns["p99"] == 400_000
    found = {each.kind for each in summarise(imported.run, imported.samples).findings}
    assert "nothing_completed" not in found


def test_with_unified_reporting_of_both_the_sum_is_not_counted_again(tmp_path):
    entry = job(options={"rw": "randrw"}, reads=300, writes=200) | {"mixed": summary(500)}
    (sample,) = read(tmp_path, document(entry)).samples
    assert {kind: each.completed for kind, each in sample.operations.items()} == {
        "read": 300,
        "write": 200,
    }


def test_nothing_completed_is_said_only_where_the_file_says_so(tmp_path):
    silent = job("silent", 1)
    for name in ("read", "write", "trim"):
        del silent[name]
    imported = read(tmp_path, document(job("one", 0), silent))
    assert len(imported.samples) == 1
    assert any("no request count for job silent" in note for note in notes(imported))
    with pytest.raises(UsageError, match="no results of reads or writes"):
        read(tmp_path, document(silent))


def test_a_group_that_did_more_than_its_options_say_keeps_all_of_it(tmp_path):
    imported = read(tmp_path, document(job(reads=300, writes=100)))
    (sample,) = imported.samples
    assert (sample.cell.operation, sample.cell.factors["read_share"]) == ("mixed", 0.75)
    assert sample.completed_per_s == 400


# --client


def of_servers(*entries: dict, **more) -> dict:
    content = document(client_stats=list(entries), **more)
    del content["jobs"]
    return content


def on(host: str, port: int, name: str = "a", group: int = 0, **more) -> dict:
    return job(name, group, hostname=host, port=port, **more)


def test_global_options_of_each_server_are_below_those_of_its_jobs(tmp_path):
    shared = [
        {"hostname": "a", "port": 8765, "bs": "8k", "iodepth": "4", "ioengine": "libaio"},
        {"hostname": "b", "port": 8765, "bs": "16k"},
    ]
    entries = [on("a", 8765), on("b", 8765)]
    for entry in entries:
        entry["job options"] = {"rw": "randread", "direct": "1"}
    samples = read(tmp_path, of_servers(*entries, **{"global options": shared})).samples
    assert [(s.cell.target, s.cell.block_size_bytes, s.cell.depth) for s in samples] == [
        ("a", 8192, 4),
        ("b", 16384, 1),
    ]


def test_two_servers_of_one_machine_are_added_up_and_are_no_rounds(tmp_path):
    content = of_servers(on("h", 8771, reads=100), on("h", 8772, reads=300))
    samples = read(tmp_path, content).samples
    assert {s.cell.target: (s.completed_per_s, s.cell.threads) for s in samples} == {
        "h:8771": (100, 1),
        "h:8772": (300, 1),
        "All clients": (400, 2),
    }
    assert all(sample.round == 0 for sample in samples)


def test_fios_own_sum_over_all_clients_is_neither_trusted_nor_a_host(tmp_path):
    wrong = job("All clients", hostname="b", port=8765, reads=99_999)
    content = of_servers(
        *(on(host, 8765, "first", 0, reads=100) for host in "ab"),
        *(on(host, 8765, "then", 1, reads=50) for host in "ab"),
        wrong,
    )
    samples = read(tmp_path, content).samples
    sums = {
        s.cell.factors.get("job"): s.completed_per_s
        for s in samples
        if s.cell.target == "All clients"
    }
    assert sums == {"first": 200, "then": 100}
    assert len({s.cell.target for s in samples}) == 3


def test_servers_that_did_different_things_have_no_sum(tmp_path):
    content = of_servers(on("a", 1, options={"bs": "4k"}), on("b", 1, options={"bs": "8k"}))
    imported = read(tmp_path, content)
    assert {s.cell.target for s in imported.samples} == {"a", "b"}
    assert any("differs between servers" in note for note in notes(imported))


# Text around the JSON


@pytest.mark.parametrize(
    "prefix",
    [
        "Nov 23 10:00:01 host fio[4711]: ",
        "2026-11-23T10:00:01.123456Z stdout F ",
        "> ",
        "fio-1  | ",
    ],
)
def test_json_behind_the_prefix_of_a_log_is_read(tmp_path, prefix):
    (sample,) = read(tmp_path, document(job(reads=77)), prefix=prefix).samples
    assert sample.outcome.completed == 77


def test_times_of_a_log_may_go_on_and_lines_of_others_are_left_out(tmp_path):
    lines = json.dumps(document(job(reads=77)), indent=2).splitlines()
    place = tmp_path / "journal"
    with place.open("w", encoding="utf-8") as file:
        for number, line in enumerate(lines):
            file.write(f"Nov  9 10:00:{number % 60:02} db fio[4711]: {line}\n")
            if number == 5:
                file.write("Nov  9 10:00:05 db kernel: {nothing of fio\n")
    assert read_results(place).samples[0].outcome.completed == 77


@pytest.mark.parametrize("before", ["> ", "$ fio job.fio --output-format=json ", '{"results": '])
def test_json_that_begins_within_a_line_is_read(tmp_path, before):
    (sample,) = read(tmp_path, document(job(reads=77)), before=before).samples
    assert sample.outcome.completed == 77


def test_a_file_without_the_beginning_is_refused_with_that_reason(tmp_path):
    place = tmp_path / "fio.json"
    place.write_text('  "fio version" : "fio-3.33",\n  "jobs" : []\n}\n', encoding="utf-8")
    with pytest.raises(UsageError, match="no complete JSON of fio"):
        read_results(place)


def test_latency_of_syncs_is_kept_before_fio_counts_them(tmp_path):
    sync = {"total_ios": 9, "lat_ns": {k: v for k, v in latency(9).items() if k != "N"}}
    entry = job(reads=0, writes=90, options={"rw": "write", "fsync": "10"}) | {"sync": sync}
    imported = read(tmp_path, document(entry))
    (sample,) = imported.samples
    assert sample.operations["sync"].reported_ns["mean"] == 100_000
    assert sample.completed_per_s == 90 / sample.duration_s
