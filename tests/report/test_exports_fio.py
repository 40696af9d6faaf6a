"""The fio export has the layout of fio's own output, and figures that agree among themselves."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from report.exports_hand import make_cell, make_run, make_sample, make_summary, summarised
from report.sample_run import sample_summary
from seatrial._core import Histogram
from seatrial.importers import read_results
from seatrial.report.exports import export
from seatrial.results.model import OperationResult

GOLDEN = Path(__file__).parent / "fio-3.33-json-plus.json"
NAMED_BY_CONTENT = {"job options", "bins", "percentile", "disk_util"}


def layout(value: Any, at: str = "") -> dict[str, str]:
    """The path of every field and what it holds: a number, a text or nothing known."""
    if isinstance(value, dict):
        fields = {at: "object"} if at else {}
        for name, item in value.items():
            if name in NAMED_BY_CONTENT:
                fields[f"{at}.{name}"] = type(item).__name__
            else:
                fields |= layout(item, f"{at}.{name}")
        return fields
    if isinstance(value, list):
        return layout(value[0], f"{at}[]")
    return {at: "number" if isinstance(value, int | float) else type(value).__name__}


def exported(*cells) -> dict[str, Any]:
    document = json.loads(export(make_summary(list(cells)), "fio-json"))
    assert isinstance(document, dict)
    return document


def mixed_cell(rounds: int = 2):
    cell = make_cell("mixed", 4096, threads=4, depth=4, read_share=0.7)
    return summarised(
        [
            make_sample(cell, {"read": 700, "write": 300}, duration_s=2.0, index=index)
            for index in range(rounds)
        ]
    )


def test_every_field_that_fio_writes_is_there():
    golden = layout(json.loads(GOLDEN.read_text()))
    document = exported(mixed_cell())
    assert set(document.pop("seatrial")) == {"run", "left_out"}
    # The date in words is fio's alone.
    assert layout(document) == {at: kind for at, kind in golden.items() if at != ".time"}


def test_what_is_named_by_content_is_named_as_fio_names_it():
    golden = json.loads(GOLDEN.read_text())["jobs"][0]
    ours = exported(mixed_cell())["jobs"][0]
    assert list(ours["read"]["clat_ns"]["percentile"]) == list(
        golden["read"]["clat_ns"]["percentile"]
    )
    assert all(key.isdigit() for key in ours["read"]["clat_ns"]["bins"])
    assert {type(value) for value in ours["job options"].values()} == {str}
    assert set(ours["job options"]) >= {"name", "rw", "bs", "iodepth", "numjobs", "runtime"}


def test_rounds_are_added_up_and_units_are_those_of_fio():
    job = exported(mixed_cell())["jobs"][0]
    read = job["read"]
    assert (read["total_ios"], read["runtime"], read["iops"]) == (1400, 4000, 350.0)
    assert (read["io_bytes"], read["io_kbytes"]) == (1400 * 4096, 1400 * 4)
    assert (read["bw_bytes"], read["bw"]) == (1400 * 4096 // 4, 1400)
    assert job["write"]["total_ios"] == 600
    assert job["trim"]["runtime"] == 0
    assert job["job_runtime"] == 4000
    assert (job["usr_cpu"], job["sys_cpu"]) == (pytest.approx(20.0), pytest.approx(30.0))
    assert job["job options"] == {
        "name": job["jobname"], "description": "seatrial kind=matrix target=ssd", "rw": "randrw",
        "bs": "4k", "iodepth": "4", "numjobs": "4", "direct": "1", "runtime": "4",
        "ioengine": "io_uring", "rwmixread": "70",
    }  # fmt: skip


def test_reads_and_writes_counted_together_are_mixed():
    cell = make_cell("mixed", 4096, read_share=0.7)
    job = exported(summarised([make_sample(cell, {"mixed": 1000}, duration_s=2.0)]))["jobs"][0]
    assert (job["mixed"]["total_ios"], job["mixed"]["iops"]) == (1000, 500.0)
    assert "read" not in job


def test_latency_is_that_of_the_merged_histograms():
    cell = make_cell("read", 4096)
    samples = [
        make_sample(cell, {"read": 90}, index=0, latency_ns=100_000),
        make_sample(cell, {"read": 10}, index=1, latency_ns=3_000_000),
    ]
    job = exported(summarised(samples))["jobs"][0]
    clat = job["read"]["clat_ns"]
    assert (clat["min"], clat["max"], clat["N"]) == (100_000, 3_000_000, 100)
    assert clat["mean"] == pytest.approx(390_000)
    assert clat["stddev"] == pytest.approx(870_000 * (100 / 99) ** 0.5, rel=0.01)
    assert clat["percentile"]["50.000000"] == pytest.approx(100_000, rel=0.008)
    assert clat["percentile"]["99.000000"] == pytest.approx(3_000_000, rel=0.008)
    assert list(clat["bins"].values()) == [90, 10]
    assert job["latency_us"]["250"] == 90.0
    assert job["latency_ms"]["4"] == 10.0
    every = [share for name in ("ns", "us", "ms") for share in job[f"latency_{name}"].values()]
    assert sum(every) == pytest.approx(100)


def test_under_a_schedule_clat_is_service_and_lat_is_response():
    sample = make_sample(make_cell("read", 4096), {"read": 10})
    read = OperationResult(
        completed=10,
        failed=0,
        transferred_bytes=40_960,
        response=Histogram.of([3_000_000] * 10).encode(),
        service=Histogram.of([20_000] * 10).encode(),
    )
    job = exported(summarised([msgspec.structs.replace(sample, operations={"read": read})]))
    direction = job["jobs"][0]["read"]
    assert direction["clat_ns"]["mean"] == pytest.approx(20_000)
    assert direction["lat_ns"]["mean"] == pytest.approx(3_000_000)


def test_spread_counts_the_slices_in_which_nothing_completed():
    # One second of ten slices; all 100 requests completed in the first.
    read = exported(summarised([make_sample(make_cell("read", 4096), {"read": 100})]))["jobs"][0][
        "read"
    ]
    assert (read["iops_min"], read["iops_max"], read["iops_samples"]) == (0, 1000, 10)
    assert read["iops_mean"] == pytest.approx(100)
    assert read["iops_stddev"] == pytest.approx(300)
    assert read["bw_max"] == 4000


@pytest.mark.parametrize(
    ("cell", "wanted"),
    [
        (make_cell("read", 512), ("randread", "512", "1")),
        (make_cell("write", 1024**2, 10), ("randwrite", "1024k", "10")),
        (make_cell("read", 4096, kind="sequential", pattern="sequential"), ("read", "4k", "1")),
        (make_cell("write", 1024**2, kind="fill"), ("write", "1024k", "1")),
        (make_cell("read", 4096, kind="io", pattern="zipf"), ("randread", "4k", "1")),
        (make_cell("commit", 8192, 16, kind="commit", method="o_dsync"), ("write", "8k", "16")),
        (make_cell("mixed", 0, 8, kind="mix", access="file-server"), ("randrw", "mixed", "8")),
    ],
)
def test_options_say_what_the_cell_does(cell, wanted):
    operation = "read" if cell.operation == "mixed" else cell.operation
    job = exported(summarised([make_sample(cell, {operation: 10})]))["jobs"][0]
    options = job["job options"]
    assert (options["rw"], options["bs"], options["numjobs"]) == wanted
    direction = "read" if operation == "read" else "write"
    assert job[direction]["total_ios"] == 10


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ({}, {}),
        ({"sync_every": 4}, {"fdatasync": "4"}),
        ({"sync_every": 2, "sync_kind": "fsync"}, {"fsync": "2"}),
        ({"target": {"dsync": True}}, {"sync": "dsync"}),
    ],
)
def test_options_say_how_writes_are_synced(tmp_path, spec, options):
    cell = msgspec.structs.replace(make_cell("write", 8192), spec=spec)
    document = exported(summarised([make_sample(cell, {"write": 100, "sync": 25})]))
    said = document["jobs"][0]["job options"]
    assert {name: said[name] for name in ("sync", "fsync", "fdatasync") if name in said} == options
    if "sync_every" in spec:
        (back,) = imported(tmp_path, document).samples
        assert back.completed_per_s == pytest.approx(100 / back.duration_s)


def imported(tmp_path, document):
    path = tmp_path / "fio.json"
    path.write_text(json.dumps(document))
    return read_results(path)


def test_import_gives_the_same_tests_again(tmp_path):
    parts = []
    for count, rate in ((500, 500.0), (2000, 2000.0)):
        cell = make_cell("read", 8192, depth=4, kind="io", rate=rate)
        spec = {"arrival": {"kind": "poisson", "rate_per_s": rate}}
        cell = msgspec.structs.replace(cell, spec=spec)
        parts.append(summarised([make_sample(cell, {"read": count})]))
    commit = make_cell("commit", 8192, kind="commit", method="fdatasync")
    parts.append(summarised([make_sample(commit, {"commit": 90}, latency_ns=400_000)]))
    document = exported(*parts)
    known = [job["job options"] for job in document["jobs"]]
    assert [each.get("rate_iops") for each in known] == ["500", "2000", None]
    back = imported(tmp_path, document)
    found = {sample.cell.key: sample for sample in back.samples}
    assert {key: sample.completed_per_s for key, sample in found.items()} == {
        part.cell.key: pytest.approx(part.iops.value) for part in parts
    }
    assert [sample.cell.depth for sample in back.samples] == [4, 4, 1]
    assert found[commit.key].operations["commit"].response_histogram().min_ns == 400_000
    assert back.run.started_at == pytest.approx(make_run().started_at, abs=1)


@pytest.mark.parametrize(
    ("cell", "line"),
    [
        (make_cell("write", 0, kind="fill"), "its block size is unknown"),
        (
            make_cell("read", kind="io", pattern="unknown"),
            ";   is left out: its pattern is unknown",
        ),
        (make_cell("write", 1 << 20, kind="fill"), "\nrw=write"),
        (make_cell("commit", 8192, kind="commit"), "\nrw=write"),
    ],
)
def test_the_job_of_an_imported_test_has_only_what_is_known_or_implied(cell, line):
    """fio takes a block size of 0 as 4 KiB."""
    tests = [make_cell("write", 4096), cell]
    cells = [summarised([make_sample(each, {each.operation: 100})]) for each in tests]
    first, last = export(make_summary(cells), "fio-job").split("\n\n")[-2:]
    assert "rw=randwrite" in first.splitlines()
    assert f"{line}\n" in last


def test_a_copy_is_left_out_and_named():
    copy = make_cell("copy", 131_072, kind="copy")
    document = exported(mixed_cell(), summarised([make_sample(copy, {"copy": 10})]))
    assert [job["jobname"] for job in document["jobs"]] == [mixed_cell().cell.key]
    assert document["seatrial"]["left_out"] == [copy.key]


def test_a_cell_without_a_completion_is_all_zero():
    sample = make_sample(make_cell("read", 4096), {"read": 0})
    read = exported(summarised([sample], blank="0 completed"))["jobs"][0]["read"]
    assert (read["iops"], read["total_ios"], read["clat_ns"]["N"]) == (0, 0, 0)
    assert "percentile" not in read["clat_ns"]


@pytest.mark.parametrize(
    ("depth", "level"), [(1, "1"), (5, "4"), (32, "32"), (63, "32"), (64, ">=64"), (256, ">=64")]
)
def test_the_depth_stands_in_fios_step(depth, level):
    cell = make_cell("read", 4096, depth=depth)
    levels = exported(summarised([make_sample(cell, {"read": 10})]))["jobs"][0]["iodepth_level"]
    assert {name for name, share in levels.items() if share} == {level}


def read_as_fio_plot_does(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields that fio-plot 1.1 takes from each job, and how it turns them into rows."""
    mode = {"randread": "read", "read": "read", "randwrite": "write", "write": "write"}
    rows = []
    for job in document["jobs"]:
        options = job["job options"]
        section = job[mode.get(options["rw"], "read")]
        rows.append(
            {
                "iodepth": int(options["iodepth"]),
                "numjobs": int(options["numjobs"]),
                "bs": options["bs"],
                "iops": section["iops"],
                "bw": section["bw"],
                "lat": section["lat_ns"]["mean"],
                "spread": (section["iops_stddev"], section["lat_ns"]["stddev"]),
                "shares": [job[name] for name in ("latency_ms", "latency_us", "latency_ns")],
                "cpu": job["usr_cpu"] + job["sys_cpu"],
                "version": document["fio version"],
            }
        )
    return rows


def test_fio_plot_reads_a_whole_run():
    summary = sample_summary(sizes_bytes=(4096, 65_536), threads=(1, 10), rounds=2)
    rows = read_as_fio_plot_does(json.loads(export(summary, "fio-json")))
    assert len(rows) == sum(part.cell.operation != "copy" for part in summary.cells)
    fixed = [row for row in rows if row["bs"].endswith("k")]
    assert all(
        row["bw"] == pytest.approx(row["iops"] * int(row["bs"][:-1]), rel=0.001, abs=1)
        for row in fixed
    )


def test_fio_itself_writes_what_that_reader_reads(tmp_path):
    if shutil.which("fio") is None:
        pytest.skip("needs fio to compare with: apt-get install fio")
    output = tmp_path / "fio.json"
    command = [
        "fio", "--name=compare", f"--filename={tmp_path / 'trial.dat'}", "--rw=randread", "--bs=4k",
        "--size=4M", "--ioengine=psync", "--iodepth=1", "--numjobs=1", "--output-format=json+",
        f"--output={output}",
    ]  # fmt: skip
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    (row,) = read_as_fio_plot_does(json.loads(output.read_text()))
    assert row["bw"] == pytest.approx(row["iops"] * 4, rel=0.02)
