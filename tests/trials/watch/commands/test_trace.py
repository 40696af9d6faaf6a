"""``seatrial trace``: other programs' traces come in, and what kind of load they are is shown."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cli.command import seatrial
from report.json_schema import assert_published
from seatrial.trials.watch.recording import read
from trials.watch import blktrace

MSR = "128166372003061629,hm,0,Read,383496192,32768,413\n"
"""From the description of the format."""
needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio")


def fio(*options: str, folder: Path) -> dict:
    report = folder / "fio.json"
    command = ["fio", "--name=job", "--output-format=json", f"--output={report}", *options]
    subprocess.run(command, check=True, cwd=folder, capture_output=True)
    return json.loads(report.read_text())["jobs"][0]


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[str]:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(32 << 20)
    made = subprocess.run(
        ["losetup", "--find", "--show", "--direct-io=on", image],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    yield made.stdout.strip()
    subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


@pytest.mark.root
@needs_fio
def test_a_real_blktrace_has_the_requests_that_fio_counted(tmp_path: Path, loop_device: str):
    trace, report = tmp_path / "trace", tmp_path / "fio.json"
    job = (
        *("fio", "--name=job", f"--filename={loop_device}", "--rw=randrw", "--rwmixread=70"),
        *("--bs=8k", "--size=32m", "--io_size=4m", "--direct=1", "--ioengine=psync"),
        *("--output-format=json", f"--output={report}"),
    )
    helper = [sys.executable, blktrace.__file__, loop_device, trace, *job]
    done = subprocess.run(["unshare", "--mount", *helper], check=False)
    if done.returncode == blktrace.NOT_HERE:
        pytest.skip("this kernel has no blk tracer, or somebody uses it")
    assert done.returncode == 0
    imported = seatrial("trace", "import", trace, "-o", "t.rec", folder=tmp_path)
    assert imported.code == 0, imported
    found = read(tmp_path / "t.rec")
    counted = json.loads(report.read_text())["jobs"][0]
    for number, name in enumerate(("read", "write")):
        own = (found.operation == number) & (found.length_bytes == 8192)
        assert own.sum() == counted[name]["total_ios"]
        # fio's clock begins before the request arrives, and ends after it completes.
        mean_ns = (found.queue_ns + found.device_ns)[own].mean()
        assert 0 < mean_ns <= counted[name]["clat_ns"]["mean"] * 1.1
    assert (found.is_sync[found.operation == 0] == 1).all()
    assert (found.queue_ns >= 0).mean() > 0.9


@needs_fio
def test_fios_own_log_has_what_fio_counted(tmp_path: Path):
    counted = fio(
        *("--filename=f", "--size=1m", "--rw=randrw", "--bs=4k", "--fsync=16"),
        *("--number_ios=200", "--write_iolog=io.log"),
        folder=tmp_path,
    )
    imported = seatrial("trace", "import", "io.log", "-o", "t.rec", folder=tmp_path)
    assert imported.code == 0, imported
    assert "Left out: actions on files: add, open, close (3)" in imported.out
    found = read(tmp_path / "t.rec")
    for number, name in enumerate(("read", "write")):
        assert (found.operation == number).sum() == counted[name]["total_ios"]
    assert (found.operation == 2).sum() == counted["sync"]["total_ios"]
    assert (found.device_ns == -1).all()
    # The times are in µs: the log is as long as the job.
    job_s = max(counted[name]["runtime"] for name in ("read", "write")) / 1000
    assert found.about.seconds <= job_s + 0.1


FLUSHES = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda sync 0 0\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [("empty.csv", MSR.replace("32768", "0") + MSR.replace("32768", "0")), ("fl.log", FLUSHES)],
)
def test_a_trace_without_a_byte_is_shown_compared_and_planned(
    tmp_path: Path, name: str, content: str
):
    (tmp_path / name).write_text(content)
    imported = seatrial("trace", "import", name, "-o", "t.rec", folder=tmp_path)
    assert imported.code == 0, imported
    shown = seatrial("trace", "show", "t.rec", "--output", "t.html", folder=tmp_path)
    assert shown.code == 0, shown
    assert "Transfer per second" not in (tmp_path / "t.html").read_text()
    compared = seatrial("trace", "compare", "t.rec", "t.rec", "--json", folder=tmp_path)
    common = compared.document["figures"][-1]
    # Identical sizes, but for flushes, which have none.
    expected = (None, None) if content == FLUSHES else (1.0, True)
    assert (common["name"], common["b"], common["is_near"]) == ("sizes in common", *expected)
    if content == FLUSHES:
        assert "1 request to 1 device" in imported.out
        planned = seatrial(
            "trace", "replay", "t.rec", "--to", "null", "--plan", "--size", "1MiB", folder=tmp_path
        )
        assert planned.code == 0, planned


def test_what_is_no_trace_is_refused_with_the_formats_and_the_line(tmp_path: Path):
    (tmp_path / "a").write_text("startup\n")
    refused = seatrial("trace", "import", "a", "-o", "a.rec", folder=tmp_path)
    assert refused.code == 2
    assert "is in no known trace format" in refused.err
    assert "oracle-general" in refused.err
    (tmp_path / "b.csv").write_text(MSR * 3 + MSR.replace("Read", "Reed"))
    refused = seatrial("trace", "import", "b.csv", "-o", "b.rec", folder=tmp_path)
    assert refused.code == 2
    assert 'b.csv, line 4: the operation is "Reed", not Read or Write' in refused.err
    absent = seatrial("trace", "import", "c.csv", "-o", "c.rec", folder=tmp_path)
    assert absent.code == 2
    assert "No such file" in absent.err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "b.csv"]


def test_a_recording_is_replaced_by_force_alone_and_another_file_never(tmp_path: Path):
    (tmp_path / "t.csv").write_text(MSR)
    command = ("trace", "import", "t.csv", "-o", "t.rec")
    assert seatrial(*command, folder=tmp_path).code == 0
    assert seatrial(*command, folder=tmp_path).code == 5
    assert seatrial(*command, "--force", folder=tmp_path).code == 0
    (tmp_path / "t.rec").write_text("my novel")
    assert seatrial(*command, "--force", folder=tmp_path).code == 5
    assert (tmp_path / "t.rec").read_text() == "my novel"


def test_a_recording_is_shown_as_text_page_and_document(tmp_path: Path):
    random = np.random.default_rng(7)
    lines = []
    for number in range(4000):
        at = 128166372003061629 + number * 150_000 + int(random.integers(0, 100_000))
        offset = int(random.zipf(1.3)) % 4000 * 8192
        operation = "Read" if random.random() < 0.8 else "Write"
        lines.append(f"{at},hm,0,{operation},{offset},8192,{random.integers(900, 4000)}\n")
    (tmp_path / "t.csv").write_text("".join(lines))
    assert seatrial("trace", "import", "t.csv", "-o", "t.rec", folder=tmp_path).code == 0
    shown = seatrial("trace", "show", "t.rec", "-o", "t.html", folder=tmp_path)
    assert shown.code == 0, shown
    first = shown.out.splitlines()[0]
    assert "% random reads of 8 KiB and " in first
    assert "writes of 8 KiB, 67 requests/s" in first
    assert "Confidence: 4,000 requests in 1 min, from msr (imported)." in shown.out
    unknown = "Unknown in msr (imported): the time in the queue, whether a process waits, which"
    assert unknown in " ".join(shown.out.split())
    page = (tmp_path / "t.html").read_text()
    assert "What stands out" in page
    assert 'id="figure-load-heat"' in page
    document = json.loads(seatrial("trace", "show", "t.rec", "--json", folder=tmp_path).out)
    assert_published(document)
    assert document["load"]["requests"] == 4000
    assert document["load"]["mix"][0]["operation"] == "read"
    assert document["about"]["began_at_s"] == pytest.approx(1172163600.31, abs=0.02)


def test_what_a_format_makes_up_is_not_analysed(tmp_path: Path):
    (tmp_path / "t.lis").write_text("".join(f"{place * 8} 8 0 {place}\n" for place in range(200)))
    imported = seatrial("trace", "import", "t.lis", "-o", "t.rec", folder=tmp_path)
    assert "Times are synthetic" in imported.out
    shown = seatrial("trace", "show", "t.rec", "-o", "t.html", folder=tmp_path)
    assert shown.out.startswith("Sequential reads of 4 KiB.\n")
    assert "Reads and writes are not distinguished" in shown.out
    assert "/s" not in shown.out.replace("and writes", "")
    document = json.loads(seatrial("trace", "show", "t.rec", "--json", folder=tmp_path).out)
    assert document["load"]["arrivals"] is None
    assert document["load"]["footprint"]["working_sets"] == []


def test_what_is_no_recording_is_not_shown(tmp_path: Path):
    (tmp_path / "t.csv").write_text(MSR)
    refused = seatrial("trace", "show", "t.csv", folder=tmp_path)
    assert refused.code == 2
    assert "seatrial trace import" in refused.err


def test_a_study_imitates_a_recording_and_is_compared_with_it(tmp_path: Path):
    random = np.random.default_rng(7)
    lines, at = [], 128166372003061629
    for number in range(4000):
        at += int(random.exponential(50_000))
        if number % 4:
            lines.append(f"{at},hm,0,Read,{int(random.integers(0, 2000)) * 8192},8192,900\n")
        else:
            lines.append(f"{at},hm,0,Write,{(1 << 30) + number * 1024},4096,900\n")
    (tmp_path / "t.csv").write_text("".join(lines))
    assert seatrial("trace", "import", "t.csv", "-o", "t.rec", folder=tmp_path).code == 0
    written = seatrial("trace", "study", "t.rec", "-o", "t.toml", folder=tmp_path)
    assert written.code == 0, written
    assert "- Writes of at most 64 KiB: 25 % of reads and writes, 100 % sequential; " in written.out
    study = (tmp_path / "t.toml").read_text().replace("seconds = 30", "seconds = 2")
    (tmp_path / "short.toml").write_text(study)
    (tmp_path / "on").mkdir()
    measured = seatrial("study", "short.toml", "--target", "on", "--rounds", "2", folder=tmp_path)
    assert measured.code == 0, measured
    shown = seatrial("trace", "compare", "t.rec", "last", "--json", folder=tmp_path)
    assert shown.code == 0, shown
    document = json.loads(shown.out)
    assert_published(document)
    near = {each["name"]: each["is_near"] for each in document["figures"]}
    for name in ("reads and writes per second", "transfer", "share of reads", "mean size of reads"):
        assert near[name], shown.out
    compared = seatrial("trace", "compare", "t.rec", "t.rec", folder=tmp_path)
    assert "figures differ by at most 10 %" in " ".join(compared.out.split())
    assert " no\n" not in compared.out
    refused = seatrial("trace", "compare", "t.rec", "nothing", folder=tmp_path)
    assert refused.code == 2
