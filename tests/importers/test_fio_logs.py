"""fio's logs: the timeline of a sample, exact or estimated, with a JSON or alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from seatrial._core import Histogram
from seatrial.errors import UsageError
from seatrial.importers import read_results
from seatrial.results.model import origin_of
from seatrial.stats.timeline import is_long_enough, series_of

from .fio_runs import content_of, direction, document, fio, job
from .test_fio_json import written

OPTIONS = (
    *("--name=a", "--filename=trial.dat", "--size=4m", "--rw=randrw", "--bs=4k", "--numjobs=2"),
    *("--time_based", "--runtime=2500ms", "--group_reporting", "--rate_iops=400"),
    *("--write_lat_log=run", "--write_iops_log=run", "--write_bw_log=run"),
)

# What fio 3.33 wrote for OPTIONS with --log_avg_msec=100 on an idle machine: ms and IOPS of each
# thread. A crowded one writes windows of other lengths, and rates that do not match its requests.
MEANS = {
    1: """
        100:410 200:400 304:394 410:409 526:396 634:401 746:401 846:400 950:407 1050:400 1154:398
        1254:400 1358:407 1462:394 1566:407 1666:400 1774:401 1882:401 1992:403 2102:403 2204:401
        2305:410 2405:390
    """,
    2: """
        102:411 203:396 309:396 415:409 531:396 639:401 751:401 851:400 955:407 1055:400 1159:398
        1259:400 1363:407 1467:394 1571:407 1672:400 1779:401 1887:411 1997:394 2107:412 2210:401
        2310:400 2411:400
    """,
}
COMPLETED_EACH_WAY, LASTED_MS = 2000, 2501


def with_logs(folder: Path, *options: str) -> Path:
    return fio(folder, *OPTIONS, *options)


def test_a_line_for_each_request_is_an_exact_timeline(tmp_path):
    place = with_logs(tmp_path)
    (sample,) = read_results(place).samples
    assert is_long_enough(sample)
    (entry,) = content_of(place)["jobs"]
    for name in ("read", "write"):
        own = [part for part in sample.timeline.slices if part.operation == name]
        assert sum(part.completed for part in own) == entry[name]["total_ios"]
        assert sum(part.transferred_bytes for part in own) == entry[name]["io_bytes"]
        merged = Histogram.of([])
        for part in own:
            merged = merged.merged(Histogram.decode(part.response))
        reported = entry[name]["clat_ns"]
        assert merged.count == reported["N"]
        assert (merged.min_ns, merged.max_ns) == (reported["min"], reported["max"])
        assert merged.mean_ns == pytest.approx(reported["mean"], rel=1e-6)


def test_a_latency_log_gives_the_histogram_that_plain_json_lacks(tmp_path):
    place = with_logs(tmp_path, "--output-format=json")
    (sample,) = read_results(place).samples
    read = sample.operations["read"]
    reported = content_of(place)["jobs"][0]["read"]["clat_ns"]
    assert "bins" not in reported
    assert read.response_histogram().percentile_ns(99) == pytest.approx(
        reported["percentile"]["99.000000"], rel=1 / 64
    )


def recorded_means(folder: Path) -> Path:
    """Put the recorded logs of both threads in a folder, and the document that names them."""
    for thread, recorded in MEANS.items():
        pairs = (pair.split(":") for pair in recorded.split())
        lines = (f"{at_ms}, {iops}, {way}, 0, 0" for at_ms, iops in pairs for way in (0, 1))
        (folder / f"run_iops.{thread}.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    each_way = direction(COMPLETED_EACH_WAY) | {"runtime": LASTED_MS}
    options = {"write_iops_log": "run", "log_avg_msec": "100", "numjobs": "2"}
    entry = job(options=options | {"group_reporting": ""}, read=each_way, write=each_way)
    return written(folder, document(entry))


def test_a_log_of_means_is_shared_out_to_what_was_counted(tmp_path):
    imported = read_results(recorded_means(tmp_path))
    (sample,) = imported.samples
    assert is_long_enough(sample)
    assert sum(part.completed for part in sample.timeline.slices) == sample.outcome.completed
    assert sample.outcome.completed == 2 * COMPLETED_EACH_WAY
    rates = series_of(sample).rates
    # 2 threads of 400 reads and 400 writes a second each.
    assert rates[2:-2].mean() == pytest.approx(sample.completed_per_s, rel=0.02)
    # Its lines are 104 ms apart, at the median.
    assert any("means over 104 ms" in note for note in origin_of(imported.run).notes)


def test_means_that_fio_writes_here_are_shared_out_or_said_not_to_add_up(tmp_path):
    """Which of them, and how wide the windows are, is a matter of the machine's other load."""
    place = with_logs(tmp_path, "--log_avg_msec=100")
    imported = read_results(place)
    (sample,) = imported.samples
    (entry,) = content_of(place)["jobs"]
    assert sample.outcome.completed == entry["read"]["total_ios"] + entry["write"]["total_ios"]
    notes = " ".join(origin_of(imported.run).notes)
    if sample.timeline.slices:
        assert sum(part.completed for part in sample.timeline.slices) == sample.outcome.completed
        assert "lines are means over" in notes
    else:
        assert "do not match its request count" in notes


def test_a_dip_is_where_the_log_has_it(tmp_path):
    lines = [(100 * (index + 1), 100 if 15 <= index < 20 else 1000, 0, 0) for index in range(40)]
    text = "\n".join(", ".join(map(str, line)) for line in lines)
    (tmp_path / "run_iops.1.log").write_text(text + "\n", encoding="utf-8")
    count = sum(value for _, value, _, _ in lines) // 10
    options = {"write_iops_log": "some/where/run"}
    entry = job(options=options, read=direction(count) | {"runtime": 4000})
    (sample,) = read_results(written(tmp_path, document(entry))).samples
    rates = series_of(sample).rates
    assert rates[15:20] == pytest.approx([100] * 5, abs=10)
    assert rates[:15] == pytest.approx([1000] * 15, abs=10)


def test_a_job_does_not_slow_down_in_the_window_that_its_log_leaves_out(tmp_path):
    text = "".join(f"{100 * (index + 1)}, 1000, 0, 0\n" for index in range(39))
    (tmp_path / "run_iops.1.log").write_text(text, encoding="utf-8")
    entry = job(options={"write_iops_log": "run"}, read=direction(4000) | {"runtime": 4000})
    (sample,) = read_results(written(tmp_path, document(entry))).samples
    assert series_of(sample).rates == pytest.approx([1000] * 40, abs=10)


def test_a_thread_that_ended_early_does_nothing_from_there_on(tmp_path):
    for thread, count in ((1, 40), (2, 20)):
        text = "".join(f"{100 * (index + 1)}, 1000, 0, 0\n" for index in range(count))
        (tmp_path / f"run_iops.{thread}.log").write_text(text, encoding="utf-8")
    options = {"write_iops_log": "run", "numjobs": "2", "group_reporting": "1"}
    entry = job(options=options, read=direction(6000) | {"runtime": 4000})
    (sample,) = read_results(written(tmp_path, document(entry))).samples
    rates = series_of(sample).rates
    assert rates == pytest.approx([2000] * 20 + [1000] * 20, abs=10)


def test_logs_that_do_not_add_up_are_left_out_with_a_note(tmp_path):
    (tmp_path / "run_iops.1.log").write_text("100, 1000, 0, 0\n200, 1000, 0, 0\n", encoding="utf-8")
    entry = job(reads=9000, options={"write_iops_log": "run"})
    imported = read_results(written(tmp_path, document(entry)))
    assert imported.samples[0].timeline.slices == []
    assert any("do not match its request count" in note for note in origin_of(imported.run).notes)


def test_the_mean_is_used_where_a_log_also_has_the_largest_value(tmp_path):
    lines = [f"{end_ms}, 1000, 1, 0, 0, 0\n" for end_ms in range(100, 1001, 100)]
    (tmp_path / "run_iops.1.log").write_text("".join(lines), encoding="utf-8")
    options = {"write_iops_log": "run", "log_avg_msec": "100", "log_window_value": "both"}
    entry = job(options=options)
    (sample,) = read_results(written(tmp_path, document(entry))).samples
    assert [part.completed for part in sample.timeline.slices] == [100] * 10


def test_a_log_that_cannot_be_read_is_left_out_with_a_note(tmp_path):
    (tmp_path / "run_iops.1.log").write_text("100, 1000, 0, 0\n200, 10", encoding="utf-8")
    entry = job(options={"write_iops_log": "run", "log_avg_msec": "100"})
    imported = read_results(written(tmp_path, document(entry)))
    assert imported.samples[0].completed_per_s == 1000
    assert any("line 2" in note for note in origin_of(imported.run).notes)


def test_a_log_alone_is_a_run_of_one_thread(tmp_path):
    with_logs(tmp_path)
    place = tmp_path / "run_iops.1.log"
    lines = place.read_text(encoding="utf-8").splitlines()
    imported = read_results(place)
    (sample,) = imported.samples
    assert (sample.cell.operation, sample.cell.block_size_bytes) == ("mixed", 4096)
    assert sample.outcome.completed == len(lines)
    lasted_s = max(int(line.split(",")[0]) for line in lines) / 1000
    assert sample.completed_per_s == pytest.approx(len(lines) / lasted_s, rel=0.01)
    assert is_long_enough(sample)
    assert "unknown" in origin_of(imported.run).notes[0]


def test_a_log_of_means_alone_is_a_run_of_one_thread(tmp_path):
    whole = read_results(recorded_means(tmp_path)).samples[0].completed_per_s
    imported = read_results(tmp_path / "run_iops.1.log")
    (sample,) = imported.samples
    assert sample.cell.operation == "mixed"
    assert sample.completed_per_s == pytest.approx(whole / 2, rel=0.02)
    assert is_long_enough(sample)
    assert "unknown" in origin_of(imported.run).notes[0]


EPOCH_MS = 1_700_000_000_000


def test_unix_times_of_a_log_alone_count_from_its_first_request(tmp_path):
    text = "".join(f"{EPOCH_MS + at_ms}, 80000, 0, 4096\n" for at_ms in range(5, 1006))
    place = tmp_path / "run_lat.1.log"
    place.write_text(text, encoding="utf-8")
    (sample,) = read_results(place).samples
    assert sample.duration_s == 1.0
    assert sample.completed_per_s == pytest.approx(1001)


def test_unix_times_of_means_count_from_the_start_of_the_first_window(tmp_path):
    text = "".join(f"{EPOCH_MS + 100 * index}, 1000, 0, 0\n" for index in range(1, 41))
    (tmp_path / "run_iops.1.log").write_text(text, encoding="utf-8")
    entry = job(options={"write_iops_log": "run"}, read=direction(4000) | {"runtime": 4000})
    (sample,) = read_results(written(tmp_path, document(entry))).samples
    assert series_of(sample).rates == pytest.approx([1000] * 40, abs=10)


def test_unix_times_of_all_threads_have_one_base(tmp_path):
    for thread, start_ms in ((1, 0), (2, 500)):
        lines = [f"{EPOCH_MS + start_ms + at_ms}, 8, 0, 4096\n" for at_ms in range(500)]
        (tmp_path / f"run_lat.{thread}.log").write_text("".join(lines), encoding="utf-8")
    options = {"write_lat_log": "run", "numjobs": "2", "group_reporting": "1"}
    read = direction(1000) | {"runtime": 1000, "clat_ns": {}}
    (sample,) = read_results(written(tmp_path, document(job(options=options, read=read)))).samples
    assert series_of(sample).rates == pytest.approx([1000] * 10)


def test_times_of_another_clock_are_left_out_with_a_note(tmp_path):
    text = "".join(f"{5_000_000 + at_ms}, 80000, 0, 4096\n" for at_ms in range(1000))
    (tmp_path / "run_lat.1.log").write_text(text, encoding="utf-8")
    imported = read_results(written(tmp_path, document(job(options={"write_lat_log": "run"}))))
    assert imported.samples[0].timeline.slices == []
    assert any("they are ignored" in note for note in origin_of(imported.run).notes)


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("renamed.log", "1, 5, 0, 4096, 0\n", "name does not show"),
        ("run_lat.1.log", "100, 5000, 0, 0\n200, 5000, 0, 0\n", "no rate"),
        ("run_bw.1.log", "100, 5000, 0, 0\n200, 5000, 0, 0\n", "mean bandwidths"),
        ("run_iops.1.log", "100, 5, 0, 0\n" * 6 + "200, five, 0, 0\n", "line 7"),
    ],
)
def test_what_no_timeline_follows_from_is_refused(tmp_path, name, text, named):
    place = tmp_path / name
    place.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=named):
        read_results(place)
