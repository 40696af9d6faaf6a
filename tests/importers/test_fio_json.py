"""fio's JSON: cells, rounds, latencies, threads, clients, and text around it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seatrial.errors import UsageError
from seatrial.findings.summary import summarise
from seatrial.findings.traffic import is_direct, span_bytes, writes_are_flushed
from seatrial.importers import read_results
from seatrial.report.exports import fio_json
from seatrial.results.model import origin_of

from .fio_runs import FILE_BYTES, content_of, direction, document, fio, job, latency

OUR_BUCKET_SHARE = 1 / 128
JOBS = """
[global]
filename=trial.dat
size=16m
ioengine=libaio
runtime=300ms
time_based
group_reporting

[mixed]
rw=randrw
rwmixread=70
bs=8k
iodepth=4
numjobs=2
direct=1

[logged]
stonewall
rw=write
bs=4k
fdatasync=1
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Path:
    """The JSON+ of a real run: a mixed job and one with syncs."""
    return fio(tmp_path_factory.mktemp("fio"), job_file=JOBS)


def written(folder: Path, *contents: dict, before: str = "", after: str = "") -> Path:
    place = folder / "fio.json"
    texts = "\n".join(json.dumps(content, indent=1) for content in contents)
    place.write_text(before + texts + after, encoding="utf-8")
    return place


def cells_of(imported):
    """The summaries of the cells, in the order of the source."""
    cells = {cell.cell.key: cell for cell in summarise(imported.run, imported.samples).cells}
    return [cells[key] for key in dict.fromkeys(s.cell.key for s in imported.samples)]


def notes_of(imported) -> str:
    return " ".join(origin_of(imported.run).notes)


def test_a_real_result_keeps_counts_bytes_and_rates_exactly(real):
    mixed, logged = read_results(real).samples
    for sample, entry in zip((mixed, logged), content_of(real)["jobs"], strict=True):
        for name in ("read", "write"):
            if entry[name]["total_ios"]:
                result = sample.operations[name]
                assert result.completed == entry[name]["total_ios"]
                assert result.transferred_bytes == entry[name]["io_bytes"]
                rate_per_s = result.completed / sample.duration_s
                assert rate_per_s == pytest.approx(entry[name]["iops"], rel=1e-6)
    assert mixed.cell.key == "io/mixed/8192B/2t/4d/read_share=0.7"
    assert (logged.cell.operation, logged.cell.depth) == ("write", 1)
    syncs = content_of(real)["jobs"][1]["sync"]["lat_ns"]["N"]
    assert logged.operations["sync"].completed == syncs > 0
    assert origin_of(read_results(real).run).file_bytes == FILE_BYTES


def test_percentiles_are_fios_own_within_a_buckets_width(real):
    compared = 0
    for sample, entry in zip(read_results(real).samples, content_of(real)["jobs"], strict=True):
        for name in ("read", "write"):
            reported = entry[name]["clat_ns"]
            if not reported["N"]:
                continue
            histogram = sample.operations[name].response_histogram()
            assert histogram.count == reported["N"]
            assert (histogram.min_ns, histogram.max_ns) == (reported["min"], reported["max"])
            assert sample.operations[name].reported_ns["mean"] == reported["mean"]
            for percent, value_ns in reported["percentile"].items():
                ours = histogram.percentile_ns(float(percent))
                assert ours == pytest.approx(value_ns, rel=OUR_BUCKET_SHARE, abs=1)
                compared += 1
    assert compared == 3 * 17


def test_the_mean_that_is_shown_is_fios_exact_one(real):
    mixed = cells_of(read_results(real))[0]
    reported = content_of(real)["jobs"][0]["read"]["clat_ns"]
    assert mixed.latency["read"]["mean"].value == reported["mean"]
    assert mixed.latency["read"]["p50"].value == pytest.approx(
        reported["percentile"]["50.000000"], rel=OUR_BUCKET_SHARE
    )


def test_what_the_analysis_asks_of_a_cell_is_answered(real):
    mixed, logged = cells_of(read_results(real))
    assert is_direct(mixed)
    assert not is_direct(logged)
    assert span_bytes(mixed) == FILE_BYTES
    assert writes_are_flushed(logged)
    assert not writes_are_flushed(mixed)
    cpu_ns = mixed.samples[0].counters["cpu_system_ns"]
    entry = content_of(real)["jobs"][0]
    assert cpu_ns == pytest.approx(entry["sys_cpu"] / 100 * entry["job_runtime"] * 1e6)


def test_plain_json_keeps_the_percentiles_that_fio_printed(real, tmp_path):
    content = content_of(real)
    for entry in content["jobs"]:
        for part in (entry["read"]["clat_ns"], entry["write"]["clat_ns"], entry["sync"]["lat_ns"]):
            part.pop("bins", None)
    imported = read_results(written(tmp_path, content))
    reported = content["jobs"][0]["read"]["clat_ns"]
    (read, _) = (cell.latency for cell in cells_of(imported))
    assert read["read"]["p99"].value == reported["percentile"]["99.000000"]
    assert read["read"]["p99"].low is None
    assert read["read"]["max"].value == reported["max"]
    assert origin_of(imported.run).format == "fio-json"


def test_text_before_and_after_the_json_is_passed_over(tmp_path):
    place = written(
        tmp_path,
        document(job()),
        before="fio: time_based requires a runtime/timeout setting\na: (g=0): rw=randread\n",
        after="\n\na: (groupid=0, jobs=1): err= 0\n  read: IOPS=1000 { not JSON }\n",
    )
    (sample,) = read_results(place).samples
    assert sample.completed_per_s == 1000


def test_threads_that_fio_lists_apart_are_one_cell(tmp_path):
    options = {"numjobs": "2", "iodepth": "8", "ioengine": "libaio"}
    one = job(options=options, read=direction(100, bins={"98048": 100}))
    other = job(options=options, read=direction(300, bins={"98048": 200, "120320": 100}))
    (sample,) = read_results(written(tmp_path, document(one, other))).samples
    assert sample.cell.key == "io/read/4096B/2t/8d"
    assert sample.completed_per_s == 400
    assert sample.operations["read"].response_histogram().count == 400
    assert sample.counters["cpu_user_ns"] == pytest.approx(2 * 0.1e9)


def test_threads_apart_without_bins_lose_their_percentiles_with_a_note(tmp_path):
    part = direction(100, percentile={"50.000000": 98_000})
    jobs = [job(options={"numjobs": "2"}, read=part) for _ in range(2)]
    imported = read_results(written(tmp_path, document(*jobs)))
    assert "p50" not in imported.samples[0].operations["read"].reported_ns
    assert "cannot be merged" in notes_of(imported)


def test_equal_jobs_are_rounds_in_one_file_or_one_after_another(tmp_path):
    runs = [
        document(job(reads=1000 + place), timestamp=1795258597 + 60 * place) for place in (1, 2)
    ]
    twice = document(job("a-1", 0, reads=900), job("a-2", 1, reads=950), timestamp=1795258999)
    imported = read_results(written(tmp_path, *runs, twice))
    assert [sample.round for sample in imported.samples] == [0, 1, 2, 3]
    (cell,) = cells_of(imported)
    assert cell.iops.rounds == 4


def test_of_states_printed_during_one_run_the_last_counts(tmp_path):
    states = [
        document(job(reads=1000 * seconds, elapsed=seconds), timestamp=1795258597 + seconds)
        for seconds in (1, 2, 3)
    ]
    imported = read_results(written(tmp_path, *states))
    (sample,) = imported.samples
    assert sample.outcome.completed == 3000
    assert "2 intermediate states" in notes_of(imported)


def timed_states(*states: tuple[int, int, int]) -> list[dict]:
    """Documents by time since the first start in ms, ``elapsed`` in s, and requests."""
    return [
        document(
            job(reads=reads, elapsed=elapsed_s),
            timestamp=1795258597 + at_ms // 1000,
            timestamp_ms=1795258597_000 + at_ms,
        )
        for at_ms, elapsed_s, reads in states
    ]


def test_runs_of_a_second_one_after_another_are_rounds(tmp_path):
    runs = timed_states((1100, 2, 900), (2385, 2, 901), (3672, 2, 902))
    imported = read_results(written(tmp_path, *runs))
    assert [sample.outcome.completed for sample in imported.samples] == [900, 901, 902]
    assert "intermediate" not in notes_of(imported)


def test_states_seem_to_start_up_to_a_second_apart(tmp_path):
    states = timed_states((1001, 2, 900), (2000, 2, 1800), (3001, 4, 2700))
    (sample,) = read_results(written(tmp_path, *states)).samples
    assert sample.outcome.completed == 2700


def test_states_of_a_ramp_are_no_rounds(tmp_path):
    states = timed_states((886, 2, 178), (1791, 3, 379), (2785, 4, 200), (3780, 5, 300))
    (sample,) = read_results(written(tmp_path, *states)).samples
    assert sample.outcome.completed == 300


def test_a_run_with_fewer_requests_is_no_later_state(tmp_path):
    runs = timed_states((400, 1, 900), (900, 1, 800))
    assert len(read_results(written(tmp_path, *runs)).samples) == 2


def test_jobs_that_ran_at_the_same_time_stay_apart_and_are_noted(tmp_path):
    imported = read_results(written(tmp_path, document(job("one"), job("two"))))
    assert [s.cell.factors["job"] for s in imported.samples] == ["one", "two"]
    assert "one, two ran at the same time" in notes_of(imported)


def test_options_that_differ_become_factors(tmp_path):
    jobs = [
        job("a", place, options={"ioengine": engine, "nrfiles": "4", "log_avg_msec": str(place)})
        for place, engine in enumerate(("psync", "io_uring"))
    ]
    imported = read_results(written(tmp_path, document(*jobs)))
    engines = [sample.cell.factors.get("ioengine") for sample in imported.samples]
    assert engines == ["psync", "io_uring"]
    assert all("nrfiles" not in s.cell.factors for s in imported.samples)
    assert all("log_avg_msec" not in s.cell.factors for s in imported.samples)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"rw": "read", "bs": "1m"}, "io/read/1048576B/1t/1d/pattern=sequential"),
        ({"rw": "randwrite", "direct": "0"}, "io/write/4096B/1t/1d/direct=false"),
        ({"random_distribution": "zipf:1.2"}, "io/read/4096B/1t/1d/pattern=zipf/theta=1.2"),
        ({"random_distribution": "zipf"}, "io/read/4096B/1t/1d/pattern=zipf/theta=1.1"),
        ({"rw": "randwrite", "bs": "8k,64k"}, "io/write/65536B/1t/1d"),
        ({"rate_iops": "500", "numjobs": "2"}, "io/read/4096B/2t/1d/arrival=fixed/rate=1000"),
        ({"rate_iops": "500,"}, "io/read/4096B/1t/1d/arrival=fixed/rate=500"),
        ({"rate_iops": ",500"}, "io/read/4096B/1t/1d"),
        ({"rw": "randwrite", "rate_iops": "500,"}, "io/write/4096B/1t/1d"),
        (
            {"rw": "randrw", "rate_iops": ",500"},
            "io/mixed/4096B/1t/1d/read_share=0.5/rate_iops=,500",
        ),
        ({"rate": "4m,1m"}, "io/read/4096B/1t/1d/arrival=fixed/rate=1024"),
        ({"rate": ",1m"}, "io/read/4096B/1t/1d"),
        ({"rate": "4m", "bssplit": "4k/50:8k/50"}, "io/read/various/1t/1d/bs=4k/50:8k/50/rate=4m"),
        (
            {"rw": "randrw", "rate": "1m,2m", "bs": "4k,16k"},
            "io/mixed/various/1t/1d/read_share=0.666667/bs=4k,16k/arrival=fixed/rate=384",
        ),
        ({"rw": "randwrite", "sync": "dsync"}, "io/write/4096B/1t/1d/method=o_dsync"),
        ({"rw": "randwrite", "sync": "1"}, "io/write/4096B/1t/1d/method=o_sync"),
        ({"sync": "1"}, "io/read/4096B/1t/1d"),
        ({"thinktime": "5ms"}, "io/read/4096B/1t/1d/thinktime=5ms"),
        (
            {"percentage_random": "30"},
            "io/read/4096B/1t/1d/pattern=partly_random/percentage_random=30",
        ),
        ({"rw": "read", "percentage_random": "30"}, "io/read/4096B/1t/1d/pattern=sequential"),
        ({"bssplit": "4k/50:8k/50"}, "io/read/various/1t/1d/bs=4k/50:8k/50"),
        ({"bs": "4KiB"}, "io/read/4000B/1t/1d"),
        ({"bs": "4KiB", "kb_base": "1000"}, "io/read/4096B/1t/1d"),
        ({"blocksize": "8k", "bs": ""}, "io/read/8192B/1t/1d"),
        ({"iodepth": "32"}, "io/read/4096B/1t/1d"),
        ({"iodepth": "32", "ioengine": "io_uring"}, "io/read/4096B/1t/32d"),
    ],
)
def test_options_say_what_a_cell_is(tmp_path, options, key):
    done = {"reads": 0, "writes": 9} if options.get("rw") == "randwrite" else {"reads": 9}
    (sample,) = read_results(written(tmp_path, document(job(options=options, **done)))).samples
    assert sample.cell.key == key


def test_the_size_is_that_of_all_threads(tmp_path):
    def size_of(**options):
        threads = {"rw": "write", "bs": "4k", "numjobs": "4", "size": "16m"}
        done = job(options=threads | options, write=direction(100))
        (sample,) = read_results(written(tmp_path, document(done))).samples
        return sample.cell.parsed.target.size_bytes

    assert size_of(filename="/dev/sdx") == 16 << 20
    assert size_of(filename="/dev/sdx", offset_increment="16m") == 64 << 20
    assert size_of() == 64 << 20


def test_a_range_begins_at_its_offset(tmp_path):
    options = {"rw": "read", "filename": "/dev/sdx", "size": "16m", "offset": "1g"}
    (sample,) = read_results(written(tmp_path, document(job(options=options, reads=9)))).samples
    assert sample.cell.spec["range"] == {"start_bytes": 1 << 30, "length_bytes": 16 << 20}


def test_global_options_stand_below_those_of_the_job(tmp_path):
    reported = {"global options": {"bs": "64k", "filename": "/mnt/a/trial.dat", "direct": "1"}}
    content = document(job(), **reported)
    content["jobs"][0]["job options"] = {"rw": "randread"}
    (sample,) = read_results(written(tmp_path, content)).samples
    assert (sample.cell.block_size_bytes, sample.cell.target) == (65536, "trial.dat")


def test_clients_are_targets_and_their_sum_is_one_too(tmp_path):
    hosts = [job(hostname=name, port=8765, reads=reads) for name, reads in (("a", 100), ("b", 300))]
    total = job("All clients", reads=400)
    del total["job options"]
    content = document(client_stats=[*hosts, total])
    del content["jobs"]
    samples = read_results(written(tmp_path, content)).samples
    assert {s.cell.target: (s.completed_per_s, s.cell.threads) for s in samples} == {
        "a": (100, 1),
        "b": (300, 1),
        "All clients": (400, 2),
    }


def test_a_job_that_failed_says_so(tmp_path):
    imported = read_results(written(tmp_path, document(job(reads=0, error=5))))
    (sample,) = imported.samples
    assert (sample.outcome.completed, sample.outcome.failed) == (0, 1)
    assert "error 5 (EIO)" in notes_of(imported)
    assert cells_of(imported)[0].blank == "0 completed, 1 failed"


def test_a_group_printed_under_the_name_of_its_first_job_is_noted(tmp_path):
    imported = read_results(written(tmp_path, document(job(job_runtime=5000))))
    assert "group of about 5 threads" in notes_of(imported)


def test_lat_goes_before_clat_where_it_has_bins(tmp_path):
    part = direction(10, bins={"98048": 10}) | {"lat_ns": latency(10, bins={"100352": 10})}
    imported = read_results(written(tmp_path, document(job(read=part))))
    assert imported.samples[0].operations["read"].reported_ns["mean"] == 100_000
    assert "clat" not in notes_of(imported)


def test_sectors_of_the_one_device_report_what_it_moved(tmp_path):
    disk = {"name": "sda", "read_ios": 5, "write_ios": 6, "read_sectors": 80, "write_sectors": 8}
    content = document(job(), disk_util=[disk])
    (sample,) = read_results(written(tmp_path, content)).samples
    assert sample.counters["device_read_bytes"] == 80 * 512
    both = document(job(), job("b", 1, options={"bs": "8k"}), disk_util=[disk])
    assert all(
        "device_read_bytes" not in s.counters for s in read_results(written(tmp_path, both)).samples
    )


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (document(), "without jobs"),
        (document(job(read={"total_ios": "many"})), r"jobs\[0\].read.total_ios"),
        (document(job(read=direction(5) | {"runtime": -4})), "runtime"),
        (document(job(reads=2**53)), "io_bytes"),
        (document(job(read=direction(5, bins={"9" * 19: 5}))), "bins"),
        (document(job(read=direction(5) | {"clat_ns": latency(5, max=2**63)})), "max"),
        (document(job(options={"rw": "trim"})), "only trim"),
        ({"fio version": "fio-3.33", "jobs": 7}, r"jobs"),
    ],
)
def test_a_damaged_document_is_refused_with_the_place(tmp_path, content, named):
    with pytest.raises(UsageError, match=named):
        read_results(written(tmp_path, content))


def test_a_truncated_json_says_where_it_breaks_off(real, tmp_path):
    text = real.read_text(encoding="utf-8")
    place = tmp_path / "cut.json"
    place.write_text(text[: len(text) // 2], encoding="utf-8")
    with pytest.raises(UsageError, match=r"incomplete or invalid at line \d+"):
        read_results(place)


def failing(count: int, answered: int) -> dict:
    """A direction as fio prints it if requests fail: they are in total_ios alone."""
    return direction(answered) | {"total_ios": count, "runtime": 1000}


@pytest.mark.parametrize("version", ["fio-3.33", "fio-3.10"])
@pytest.mark.parametrize("answered", [400, 0])
def test_requests_that_failed_are_none_of_the_completed(tmp_path, version, answered):
    part = failing(1000, answered)
    if version == "fio-3.10":
        for name in ("slat_ns", "clat_ns", "lat_ns"):
            del part[name]["N"]
    found = document(job(read=part, error=5, total_err=1000 - answered)) | {"fio version": version}
    imported = read_results(written(tmp_path, found))
    (sample,) = imported.samples
    outcome = sample.outcome
    assert (outcome.offered, outcome.completed, outcome.failed) == (1000, answered, 1000 - answered)
    assert sample.operations["read"].failed == 1000 - answered
    exported = json.loads(fio_json.render(summarise(imported.run, [sample])))
    assert exported["jobs"][0]["read"]["total_ios"] == 1000
    (again,) = read_results(written(tmp_path, exported)).samples
    assert again.outcome == outcome


def test_syncs_that_no_option_announces_are_in_no_rate(tmp_path):
    sync = {"total_ios": 1, "lat_ns": latency(1)}
    entry = job(reads=0, writes=90, options={"rw": "write", "end_fsync": "1"}, sync=sync)
    (sample,) = read_results(written(tmp_path, document(entry))).samples
    assert sample.completed_per_s == pytest.approx(90)


def test_a_job_whose_options_the_client_lost_is_known_by_its_figures(tmp_path):
    sync = {"total_ios": 20, "lat_ns": latency(20)}
    lost = job("w", reads=0, writes=80, hostname="a", job_runtime=2000, sync=sync)
    del lost["job options"]
    content = document(**{"client_stats": [lost], "global options": {"bs": "4k", "direct": "1"}})
    imported = read_results(written(tmp_path, content))
    (sample,) = imported.samples
    assert sample.cell.key == "io/write/4096B/2t/1d/pattern=unknown"
    assert sample.completed_per_s == pytest.approx(80)
    assert "merged several jobs" not in notes_of(imported)


def test_a_value_with_slashes_comes_back_from_the_key(tmp_path):
    entry = job(reads=0, writes=9, options={"rw": "randwrite", "bssplit": "4k/50:64k/50"})
    imported = read_results(written(tmp_path, document(entry)))
    exported = json.loads(fio_json.render(summarise(imported.run, imported.samples)))
    (again,) = read_results(written(tmp_path, exported)).samples
    (sample,) = imported.samples
    assert sample.cell.factors["bs"] == "4k/50:64k/50"
    assert (again.cell.key, again.cell.factors) == (sample.cell.key, sample.cell.factors)
