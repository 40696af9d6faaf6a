"""Job files of fio: in as a study, out as jobs that fio runs, and back as the same cells."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from cli.command import seatrial
from seatrial.errors import UsageError
from seatrial.importers import read_jobs, read_results
from seatrial.importers.fio.jobs import HARMLESS, HONOURED
from seatrial.importers.toml_text import toml_text
from seatrial.study.load import parse_study, study_from_mapping
from seatrial.study.plan import make_plan

from .fio_runs import fio

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "python" / "seatrial" / "study" / "builtin"


def jobs_of(folder: Path, text: str):
    place = folder / "jobs.fio"
    place.write_text(text, encoding="utf-8")
    jobs = read_jobs(place)
    assert jobs is not None
    return jobs


def cells_of(folder: Path, text: str):
    jobs = jobs_of(folder, text)
    return make_plan(study_from_mapping(jobs.mapping, "jobs.fio")).cells


def test_sections_inherit_what_is_global_above_them(tmp_path):
    cells = cells_of(
        tmp_path,
        """
        ; before
        [global]
        rw=randread      # a comment behind
        bs=4k
        size=64m
        direct=1
        runtime=2
        [one]
        [global]
        iodepth=8
        ioengine=io_uring
        [two]
        stonewall
        numjobs=3
        bs=64k
        """,
    )
    assert [cell.key for cell in cells] == [
        "one/read/4096B/1t/1d/engine=psync",
        "two/read/65536B/3t/8d/engine=io_uring",
    ]
    assert {cell.spec["limit"]["duration_s"] for cell in cells} == {2}
    assert all(cell.spec["target"]["direct"] for cell in cells)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ("rw=write\ndirect=1", "a/write/4096B/1t/1d/pattern=sequential/engine=psync"),
        ("rw=randrw\nrwmixread=70\ndirect=1", "a/mixed/4096B/1t/1d/read_share=0.7/engine=psync"),
        ("rw=randread", "a/read/4096B/1t/1d/direct=false/engine=psync"),
        (
            "rw=randread\ndirect=1\nrandom_distribution=zipf:1.1",
            "a/read/4096B/1t/1d/pattern=zipf/theta=1.1/engine=psync",
        ),
        (
            "rw=randread\ndirect=1\nrate_iops=200\nnumjobs=2",
            "a/read/4096B/2t/1d/engine=psync/arrival=fixed/rate=400",
        ),
        (
            "rw=randrw\nrwmixread=70\ndirect=1\nrate_iops=700,300",
            "a/mixed/4096B/1t/1d/read_share=0.7/engine=psync/arrival=fixed/rate=1000",
        ),
        (
            "rw=randrw\nrwmixread=70\ndirect=1\nrate_iops=200\nnumjobs=2",
            "a/mixed/4096B/2t/1d/read_share=0.5/engine=psync/arrival=fixed/rate=800",
        ),
        (
            "rw=randwrite\ndirect=1\nrate_iops=700,300",
            "a/write/4096B/1t/1d/engine=psync/arrival=fixed/rate=300",
        ),
        (
            "rw=randwrite\ndirect=1\nfdatasync=4",
            "a/write/4096B/1t/1d/engine=psync/sync_every=4",
        ),
        (
            "rw=read:60k\ndirect=1",
            "a/read/4096B/1t/1d/pattern=strided/stride_bytes=65536/engine=psync",
        ),
        ("rw=write\nsync=dsync\ndirect=0", "a/commit/4096B/1t/1d/method=o_dsync/engine=psync"),
        ("rw=randwrite\ndirect=1\nbs=8k,64k", "a/write/65536B/1t/1d/engine=psync"),
        (
            "rw=randread\ndirect=1\nbssplit=4k/60:8k/40",
            "a/read/various/1t/1d/access=a/engine=psync",
        ),
    ],
)
def test_options_become_what_a_study_says(tmp_path, options, key):
    (cell,) = cells_of(tmp_path, f"[a]\nsize=16m\nruntime=1\ntime_based\nbs=4k\n{options}\n")
    assert cell.key == key


def test_a_limit_of_reads_or_writes_alone_is_noted(tmp_path):
    jobs = jobs_of(tmp_path, "[a]\nrw=randrw\nsize=1m\nrate_iops=1000,\n")
    assert "rate" not in jobs.mapping["workload"][0]
    assert any("rate_iops=1000," in note for note in jobs.notes)


@pytest.mark.parametrize(
    ("written", "theta", "is_noted"),
    [
        ("zipf", 1.1, False),
        ("zipf:1.2,zipf:0.8", 1.2, True),
        ("zipf:1.2/0.5", 1.2, False),
        ("zipf:1.2:0.5", 1.2, False),
        ("zipf:steep", 1.1, True),
    ],
)
def test_zipf_has_the_theta_that_fio_reads(tmp_path, written, theta, is_noted):
    jobs = jobs_of(tmp_path, f"[a]\nrw=randread\nsize=1m\nrandom_distribution={written}\n")
    (workload,) = jobs.mapping["workload"]
    assert workload["theta"] == theta
    assert any(written in note for note in jobs.notes) == is_noted


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ("rw=randread\nbssplit=4k/50:1k/:32k/", {4096: 50, 1024: 25, 32768: 25}),
        ("rw=randread\nbssplit=4k/90:64k/0", {4096: 90, 65536: 10}),
        ("rw=randwrite\nbssplit=4k/50:8k/50,2k/20:16k/80", {2048: 20, 16384: 80}),
        ("rw=randwrite\nbsrange=4k-8k,16k-32k", {16384: 50, 32768: 50}),
        ("rw=randrw\nbs=8k,64k", {8192: 100}),
    ],
)
def test_sizes_have_the_shares_of_the_jobs_operation(tmp_path, options, sizes):
    jobs = jobs_of(tmp_path, f"[a]\nsize=1m\n{options}\n")
    (access,) = jobs.mapping["access"]
    assert {each["size"]: each["share"] for each in access["lines"][0]["sizes"]} == sizes
    is_noted = any("block sizes of the reads" in note for note in jobs.notes)
    assert is_noted == ("rw=randrw" in options)


def test_places_become_targets(tmp_path):
    there = tmp_path / "there.dat"
    there.write_bytes(b"x" * 8192)
    jobs = jobs_of(
        tmp_path,
        f"[global]\nrw=randread\nruntime=1\n[a]\nfilename={there}\n"
        f"[b]\nfilename={tmp_path}/new.dat\nsize=1m\noffset=1m\n"
        f"[c]\ndirectory={tmp_path}\nsize=4m\n",
    )
    targets = {target["path"]: target.get("size") for target in jobs.mapping["target"]}
    assert targets == {str(there): None, str(tmp_path): 4 << 20}
    by_name = {workload["name"]: workload for workload in jobs.mapping["workload"]}
    assert (by_name["b"]["range_start"], by_name["b"]["range_length"]) == (1 << 20, 1 << 20)
    assert any("new.dat does not exist" in note for note in jobs.notes)


UNKNOWN = ("ramp_time=5", "loops=3", "verify=crc32c", "thinktime=100", "nrfiles=4", "zonemode=zbd")


def test_what_is_not_honoured_is_named_with_its_value(tmp_path):
    jobs = jobs_of(tmp_path, "[a]\nrw=randread\nsize=1m\n" + "\n".join(UNKNOWN) + "\n")
    reported = " ".join(jobs.notes)
    assert all(f"{option} is ignored" in reported for option in UNKNOWN)


def test_every_option_of_fio_is_honoured_harmless_or_named(tmp_path):
    program = shutil.which("fio")
    if program is None:
        pytest.skip("fio is not installed: apt-get install fio")
    printed = subprocess.run([program, "--cmdhelp=all"], capture_output=True, text=True, check=True)
    options = re.findall(r"^ *([a-z_0-9]+) *:", printed.stdout, re.MULTILINE)
    assert {"rw", "loops", "ba"} <= set(options)
    for option in set(options) - HONOURED - HARMLESS:
        jobs = jobs_of(tmp_path, f"[a]\nrw=randread\nsize=1m\n{option}=7\n")
        assert any(f"{option}=7 is ignored" in note for note in jobs.notes), option


@pytest.mark.parametrize(
    ("line", "is_named"),
    [
        ("blockalign=64k", True),
        ("ba=4k", False),
        ("invalidate=0", True),
        ("invalidate=1", False),
        ("file_append=1", True),
        ("filesize=9m", True),
        ("loops=3", True),
    ],
)
def test_an_option_is_named_where_its_value_changes_what_is_measured(tmp_path, line, is_named):
    jobs = jobs_of(tmp_path, f"[a]\nrw=randread\nbs=4k\nsize=1m\n{line}\n")
    value = line.partition("=")[2]
    assert any(f"={value} is ignored" in note for note in jobs.notes) == is_named


def test_another_name_of_an_option_is_read_as_the_option(tmp_path):
    jobs = jobs_of(tmp_path, "[a]\nrw=write\nsize=8m\nio_limit=2m\nfileoffset=1m\n")
    (workload,) = jobs.mapping["workload"]
    assert (workload["limit_bytes"], workload["range_start"]) == (2 << 20, 1 << 20)


def test_no_option_is_both_honoured_and_harmless():
    assert not HONOURED & HARMLESS


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("rw=read\n[a]\n", "line 1"),
        ("[global]\nrw=read\niodepth=1\n", "0 jobs"),
        ("[a]\nrw=randread\ninclude other.fio\n", "line 3"),
        ("[a]\nrw=randread\nsize=${NO_SUCH_SIZE}\n", "NO_SUCH_SIZE is not set"),
        ("[a]\nrw=trim\n", "no job that reads or writes"),
    ],
)
def test_a_malformed_job_file_is_refused(tmp_path, text, named):
    with pytest.raises(UsageError, match=named):
        jobs_of(tmp_path, text)


def test_variables_of_the_environment_are_put_in(tmp_path, monkeypatch):
    monkeypatch.setenv("DEPTH", "7")
    jobs = jobs_of(tmp_path, "[a]\nrw=randread\nioengine=io_uring\niodepth=${DEPTH}\n")
    assert jobs.mapping["workload"][0]["depths"] == 7


def test_a_job_file_is_no_result_and_a_study_no_job_file(tmp_path):
    jobs_of(tmp_path, "[a]\nrw=randread\n")
    with pytest.raises(UsageError, match="seatrial study"):
        read_results(tmp_path / "jobs.fio")
    for study in SHIPPED.glob("*.toml"):
        assert read_jobs(study) is None


def test_toml_says_what_the_mapping_says():
    mapping = {
        "name": 'a "b" \\ é',
        "table": [{"list": [1, 2.5, "x"], "on": True, "inner": [{"size": 4, "share": 0.5}]}, {}],
    }
    assert tomllib.loads(toml_text(mapping)) == mapping


def test_the_command_line_plans_measures_and_prints_a_job_file(tmp_path):
    text = "[a]\nrw=randread\nbs=4k\nsize=1m\nruntime=50ms\ntime_based\nramp_time=1\n"
    jobs_of(tmp_path, text + f"directory={tmp_path}\n")
    planned = seatrial("study", "jobs.fio", "--plan", folder=tmp_path)
    assert planned.code == 0, planned.err
    assert "ramp_time=1 is ignored" in " ".join(planned.out.split())
    measured = seatrial("study", "jobs.fio", "--rounds", "1", "--json", folder=tmp_path)
    assert measured.code == 0, measured.err
    assert [cell["workload"] for cell in measured.document["cells"]] == ["a"]
    printed = seatrial("import", "jobs.fio", folder=tmp_path)
    assert "# job a: ramp_time=1 is ignored" in printed.out
    assert parse_study(printed.out, "printed").workloads[0].label == "a"


STUDY = """
name = "crossed"
[[target]]
size = "4MiB"
[[workload]]
kind = "fill"
[[workload]]
kind = "matrix"
block_sizes = ["4KiB", "64KiB"]
threads = [1, 3]
depths = [1, 4]
seconds = 0.05
[[workload]]
kind = "sequential"
block_sizes = "64KiB"
files = {big = 1.0, small = 0.25}
seconds = 0.05
[[workload]]
kind = "copy"
[[workload]]
kind = "map"
zones = 2
seconds = 0.05
[[workload]]
kind = "commit"
committers = 2
log_size = "1MiB"
seconds = 0.05
[[workload]]
kind = "mix"
accesses = ["database", "file-server", "workstation"]
seconds = 0.05
[[workload]]
name = "patterns"
kind = "io"
pattern = ["random", "zipf", "hot_cold", "strided"]
stride = "64KiB"
operations = ["read", "mixed"]
read_share = 0.7
direct = false
sync_every = 8
seconds = 0.05
[[workload]]
name = "driven"
kind = "io"
operations = ["read", "mixed"]
read_share = 0.7
arrival = ["fixed", "poisson", "bursts", "batches"]
rate = 500
burst = 10
seconds = 0.05
"""


def crossed(folder: Path) -> str:
    """The jobs of a study of every kind, as the command line prints them."""
    (folder / "crossed.toml").write_text(STUDY, encoding="utf-8")
    ended = seatrial("study", "crossed.toml", "--target", folder, "--fio-job", folder=folder)
    assert ended.code == 0, ended.err
    return ended.out


def test_a_study_exported_as_jobs_runs_in_fio_and_comes_back_as_the_same_cells(tmp_path):
    imported = read_results(fio(tmp_path, job_file=crossed(tmp_path)))
    study = parse_study(STUDY, "crossed.toml")
    cells = {
        cell.key: cell
        for cell in make_plan(study).cells
        if cell.operation != "copy" and cell.factors.get("arrival") not in ("bursts", "batches")
    }
    back = {sample.cell.key: sample.cell for sample in imported.samples}
    assert back.keys() == cells.keys()
    for key, cell in cells.items():
        assert back[key].identity() == cell.identity() | {"target": back[key].target}, key
        assert back[key].kind == cell.kind
        assert back[key].spec["target"]["direct"] == cell.spec["target"]["direct"]
        assert back[key].spec["target"]["dsync"] == cell.spec["target"]["dsync"]
    assert all(sample.outcome.completed for sample in imported.samples)
    assert {sample.cell.target for sample in imported.samples} == {"trial"}


def test_what_fio_cannot_do_stands_in_a_comment(tmp_path):
    text = crossed(tmp_path)
    assert "; copy/copy/131072B/1t/1d\n;   is left out: fio has no copy" in text
    assert "is left out: fio has no arrivals in bursts" in text
    assert "; fio times write and fdatasync separately, not as one commit.\n[commit/" in text
    assert "CAUTION" not in text


def test_a_rate_of_reads_and_writes_is_shared_out_between_them(tmp_path):
    """fio allows a single figure to reads and to writes alike, so twice as much in all."""
    text = crossed(tmp_path)
    mixed = text.partition("[driven/mixed/")[2].partition("\n\n")[0]
    assert "\nrate_iops=350,150\n" in mixed
    assert "\nrate_iops=500\n" in text.partition("[driven/read/")[2].partition("\n\n")[0]


def test_a_stored_run_is_exported_whole_or_by_one_cell(tmp_path):
    study = STUDY.partition("[[workload]]")[0] + '[[workload]]\nkind = "io"\nseconds = 0.05\n'
    (tmp_path / "s.toml").write_text(study, encoding="utf-8")
    seatrial("study", "s.toml", "--target", tmp_path, "--rounds", "1", folder=tmp_path)
    whole = seatrial("export", "--format", "fio-job", folder=tmp_path)
    key = "io/read/8192B/1t/1d"
    one = seatrial("export", "--format", "fio-job", "--cell", key, folder=tmp_path)
    assert whole.code == one.code == 0, whole.err
    assert f"\n[{key}]\nstonewall\n" in one.out
    assert f"filename={tmp_path}/seatrial-fio.dat" in one.out
    missing = seatrial("export", "--format", "fio-job", "--cell", "io/x", folder=tmp_path)
    assert missing.code == 2
    assert key in missing.err


def test_a_run_of_fio_is_exported_as_the_jobs_that_it_was(tmp_path):
    options = ("--name=a", "--rw=randrw", "--size=1m", "--bs=8k", "--filename=f", "--nrfiles=1")
    place = fio(tmp_path, *options)
    seatrial("import", place, folder=tmp_path)
    text = seatrial("export", "--format", "fio-job", folder=tmp_path).out
    assert "\nnrfiles=1\n" in text
    again = read_results(fio(tmp_path, job_file=text, output="again.json"))
    first = read_results(place)
    assert [s.cell.key for s in again.samples] == [s.cell.key for s in first.samples]


def test_jobs_that_write_to_a_device_or_a_file_warn(tmp_path):
    place = tmp_path / "data"
    place.write_bytes(bytes(1 << 20))
    study = '[[target]]\npath = "data"\nkind = "file"\nsize = "1MiB"\n[[workload]]\nkind = "io"\n'
    (tmp_path / "s.toml").write_text(f'name = "s"\n{study}operations = "write"\n', encoding="utf-8")
    text = seatrial("study", "s.toml", "--fio-job", folder=tmp_path).out
    assert f"CAUTION: these jobs write to {place}" in text
