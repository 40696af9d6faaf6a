"""``seatrial cache``: from a recording to the answer, as text, document and page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from cli.command import seatrial
from report.json_schema import assert_published


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recording of skewed reads and some writes, imported from an MSR trace."""
    made = tmp_path_factory.mktemp("cache")
    random = np.random.default_rng(5)
    lines = [
        f"{128166372003061629 + number * 10_000},hm,0,"
        f"{'Write' if number % 10 == 0 else 'Read'},{int(random.random() ** 3 * 4000) * 8192},"
        "8192,50000\n"
        for number in range(30_000)
    ]
    (made / "web.csv").write_text("".join(lines))
    done = seatrial("trace", "import", "web.csv", "-o", "web.rec", folder=made)
    assert done.code == 0, done
    return made


def test_the_answer_comes_first_and_tables_follow(folder: Path):
    done = seatrial("cache", "predict", "web.rec", folder=folder)
    assert done.code == 0, done
    first, *rest = done.out.splitlines()
    assert "of cache would serve" in first
    text = "\n".join(rest)
    assert "Confidence: 27,000 reads" in text.replace("27k", "27,000")
    assert "Next: Try an SSD" in text
    assert "Best possible" in text
    assert "Storage serves" in text


def test_no_ssd_is_advised_if_nothing_is_reused(tmp_path: Path):
    lines = [
        f"{128166372003061629 + number * 10_000},hm,0,Read,{number * 8192},8192,50000\n"
        for number in range(1000)
    ]
    (tmp_path / "scan.csv").write_text("".join(lines))
    seatrial("trace", "import", "scan.csv", "-o", "scan.rec", folder=tmp_path)
    done = seatrial("cache", "predict", "scan.rec", folder=tmp_path)
    assert "No cache helps: 100 %" in done.out
    assert "watch --record FILE --for 1h" in done.out
    assert "--ssd" not in done.out
    assert "\n\n\n" not in done.out


def test_the_document_has_what_the_page_has(folder: Path):
    options = ("--ram", "4MiB,16MiB", "--ssd", "0,32MiB", "--ssd-kind", "bcache", "--policy", "arc")
    page = folder / "cache.html"
    done = seatrial(
        "cache", "predict", "web.rec", *options, "--json", "-o", page.name, folder=folder
    )
    assert done.code == 0, done
    document = json.loads(done.out)
    assert_published(document)
    sizes = [
        (each["memory_bytes"], each["device_bytes"]) for each in document["prediction"]["tiers"]
    ]
    mib = 2**20
    assert sizes == [(4 * mib, 0), (4 * mib, 32 * mib), (16 * mib, 0), (16 * mib, 32 * mib)]
    text = page.read_text().replace("\u00a0", " ")
    assert document["verdict"] in text
    assert "table-cache-tiers" in text


def test_the_latency_of_the_ssd_is_that_of_a_run(folder: Path):
    measured = seatrial("io", "null", "--seconds", "0.3", folder=folder)
    assert measured.code == 0, measured
    done = seatrial(
        "cache", "predict", "web.rec", "--ram", "4MiB", "--ssd", "32MiB", "--ssd-kind", "bcache",
        "--ssd-like", "last", "--json", folder=folder,
    )  # fmt: skip
    assert done.code == 0, done
    (tiers,) = json.loads(done.out)["prediction"]["tiers"]
    # 5 ms from the storage, next to nothing from the null target.
    assert tiers["read_ns_mean"] == pytest.approx(tiers["disk_share"] * 5e6, rel=0.05)


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (("--ram", "much"), "--ram"),
        (("--block-size", "3000"), "power of two"),
        (("--policy", "mru"), "--policy"),
        (("--ssd-like", "no-such-run"), "no-such-run"),
    ],
)
def test_what_is_invalid_is_reported_by_name(folder: Path, options: tuple[str, ...], reported: str):
    done = seatrial("cache", "predict", "web.rec", *options, folder=folder)
    assert done.code == 2, done
    assert reported in done.err


def test_clients_that_wait_ask_for_more_when_they_are_served_faster(folder: Path):
    options = ("--ram", "4MiB,32MiB", "--clients", "16", "--json")
    done = seatrial("cache", "predict", "web.rec", *options, folder=folder)
    assert done.code == 0, done
    document = json.loads(done.out)
    assert_published(document)
    prediction = document["prediction"]
    # 1,000 accesses a second, nine tenths of them reads of 5 ms, which clients wait for.
    assert prediction["clients"] == 16
    assert prediction["other_ns"] == pytest.approx(16e6 - 0.9 * 5e6, rel=0.01)
    small, large = prediction["tiers"]
    assert large["memory_share"] > small["memory_share"]
    most_per_s = 0.9 * 16 / (prediction["other_ns"] / 1e9)
    assert 900 < small["reads_per_s"] < large["reads_per_s"] <= most_per_s
    text = seatrial("cache", "predict", "web.rec", *options[:-1], folder=folder).out
    assert "16 clients, each of which waits" in " ".join(text.split())


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (("--clients", "4"), "4 clients cannot have sent this load"),
        (("--clients", "16", "--ssd", "32MiB"), "--ssd-like RUN"),
    ],
)
def test_clients_of_whom_too_little_is_known_are_refused(folder: Path, options, reported):
    done = seatrial("cache", "predict", "web.rec", *options, folder=folder)
    assert done.code == 2, done
    assert reported in " ".join(done.err.split())


def test_clients_need_the_times_of_their_reads(folder: Path):
    lines = [f"{number % 97 * 8},8,r,{number / 500}\n" for number in range(2000)]
    (folder / "spc.csv").write_text("".join(f"0,{each}" for each in lines))
    imported = seatrial("trace", "import", "spc.csv", "-o", "spc.rec", folder=folder)
    assert imported.code == 0, imported
    done = seatrial("cache", "predict", "spc.rec", "--clients", "8", folder=folder)
    assert (done.code, "times and latencies of reads" in " ".join(done.err.split())) == (2, True), (
        done
    )


def test_a_recording_of_writes_is_refused(folder: Path):
    (folder / "w.csv").write_text("128166372003061629,hm,0,Write,8192,8192,413\n")
    assert seatrial("trace", "import", "w.csv", "-o", "w.rec", folder=folder).code == 0
    done = seatrial("cache", "predict", "w.rec", folder=folder)
    assert (done.code, "has no read" in done.err) == (2, True)


def test_an_ssd_that_memory_cannot_feed_is_refused(folder: Path):
    for options, what in (
        (("--policy", "linux", "--ssd-kind", "l2arc-2.3"), "cannot be fed by the policy linux"),
        (("--policy", "arc", "--ram", "0"), "receives nothing if there is no memory"),
    ):
        done = seatrial("cache", "predict", "web.rec", "--ssd", "32MiB", *options, folder=folder)
        assert done.code == 2, done
        assert what in " ".join(done.err.split())


@pytest.mark.parametrize(("policy", "kind"), [("linux", "bcache"), ("arc", "l2arc-2.3")])
def test_an_ssd_of_the_usual_kind_serves_reads(folder: Path, policy: str, kind: str):
    options = ("--policy", policy, "--ram", "1MiB", "--ssd", "64MiB", "--json")
    document = json.loads(seatrial("cache", "predict", "web.rec", *options, folder=folder).out)
    assert document["prediction"]["device_kind"] == kind
    (tiers,) = document["prediction"]["tiers"]
    assert tiers["device_share"] > 0.05


def test_a_run_that_is_a_recording_names_it(folder: Path, tmp_path: Path):
    options = ("--ram", "4MiB", "--json")
    by_file = seatrial("cache", "predict", "web.rec", *options, folder=folder)
    # Its import stored it.
    stored = seatrial("trace", "store", "web.rec", folder=folder)
    (run,) = re.findall(r"run (\S+)", stored.out)[:1]
    by_run = seatrial("cache", "predict", run, *options, folder=folder)
    assert by_run.code == 0, by_run
    assert json.loads(by_run.out) == json.loads(by_file.out)
    # The same from elsewhere: beside the results file, whichever that is.
    (results,) = folder.glob("*.seatrial")
    elsewhere = seatrial("cache", "predict", f"{results}:{run}", *options, folder=tmp_path)
    assert json.loads(elsewhere.out) == json.loads(by_file.out)


def test_a_run_without_its_recording_says_where_it_was_sought(folder: Path, tmp_path: Path):
    stored = seatrial("trace", "store", str(folder / "web.rec"), folder=tmp_path)
    assert stored.code == 0, stored
    missing = seatrial("cache", "predict", "last", folder=tmp_path)
    assert missing.code == 2
    assert f"web.rec of the run last is not in {tmp_path}" in missing.err
    # Another recording of that name is not taken for it.
    other = "128166372003061629,hm,0,Read,8192,8192,50000\n" * 3
    (tmp_path / "other.csv").write_text(other)
    seatrial("trace", "import", "other.csv", "--format", "msr", "-o", "web.rec", folder=tmp_path)
    runs = seatrial("list", "--json", folder=tmp_path)
    first = json.loads(runs.out)["runs"][-1]["id"]
    again = seatrial("cache", "predict", first, folder=tmp_path)
    assert again.code == 2, again


def test_a_run_of_a_test_is_no_recording(folder: Path):
    measured = seatrial("io", "null", "--seconds", "0.3", "--label", "a-test", folder=folder)
    assert measured.code == 0, measured
    done = seatrial("cache", "predict", "a-test", folder=folder)
    assert done.code == 2
    assert "The run a-test is not a recording" in done.err
