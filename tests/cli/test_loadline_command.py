"""The command ``seatrial loadline``, as a user types it."""

from __future__ import annotations

import signal

import pytest

from cli.command import ended, seatrial, start
from measure.studies import samples_count, stored, wait_for_samples

MODEL = """
channels = 8
read = { base_us = 80, per_kib_us = 0 }
write = { base_us = 80, per_kib_us = 0 }
noise_share = 0.2
"""
CAPACITY_PER_S = 8 / 96e-6


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "device.toml"
    path.write_text(MODEL)
    return path


def simulated(tmp_path, model, *more):
    return seatrial("loadline", "simulated", "--model", model, *more, folder=tmp_path)


def test_the_answer_and_its_table_are_printed_and_shown_again(tmp_path, model):
    told = simulated(tmp_path, model, "--p99", "2ms", "--read", "70")
    assert told.code == 0, told
    assert "Within p99 <= 2 ms it sustains" in told.out
    headings = next(line for line in told.out.splitlines() if line.startswith("Offered"))
    assert [
        word in headings for word in ("p50", "p99", "service", "Late", "Above limit", "Answer")
    ] == [True] * 6
    assert "p99 <= 2 ms breaks at a knee" in told.out
    shown = seatrial("show", "last", folder=tmp_path)
    assert shown.code == 0
    assert shown.out.strip() in told.out
    for command in (("report", "last"), ("export", "last", "--format", "csv")):
        assert seatrial(*command, folder=tmp_path).code == 0


def test_the_document_holds_the_line(tmp_path, model):
    told = simulated(tmp_path, model, "--p99", "2ms", "--json")
    (line,) = told.document["load_lines"]
    assert (line["percentile"], line["limit_ns"], line["breaks"]) == ("p99", 2_000_000, "knee")
    assert line["sustained"]["value"] == pytest.approx(CAPACITY_PER_S, rel=0.06)
    assert line["sustained"]["low"] < line["sustained"]["high"] <= CAPACITY_PER_S * 1.02
    assert line["sentence"] in told.document["verdict"]
    kinds = [finding["kind"] for finding in told.document["findings"]]
    assert "knee" in kinds
    assert "late_requests" not in kinds, "the rates that are too high are sought on purpose"
    assert told.document["run"]["study"]["workload"][0]["limit"] == "2ms"


@pytest.mark.parametrize(("rate", "code"), [("50000", 0), ("120000", 3)])
def test_a_rate_can_be_demanded(tmp_path, model, rate, code):
    told = simulated(tmp_path, model, "--p99", "2ms", "--at-least", rate, "--json")
    assert told.code == code
    (threshold,) = told.document["thresholds"]
    assert threshold["met"] is (code == 0)
    assert threshold["worst"]["unit"] == "IOPS"


def test_nothing_sustained_is_not_enough(tmp_path, model):
    told = simulated(tmp_path, model, "--p99", "20us", "--at-least", "1")
    assert told.code == 3
    assert "even at" in told.out


def test_both_spellings_ask_the_same(tmp_path, model):
    short = simulated(tmp_path, model, "--p99.9", "2ms", "--plan", "--json")
    words = simulated(
        tmp_path, model, "--percentile", "p99.9", "--limit", "2ms", "--plan", "--json"
    )
    assert short.document == words.document
    assert "p99.9 <= 2ms" in short.document["notes"][0]
    assert short.document["cells"][0]["key"] == "loadline/read/8192B/4t/32d"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--p99", "5"], "--p99 is wrong: '5' has no unit; write 5ms or 5us"),
        (["--p99", "soon"], "'soon' is no time"),
        (["--p99", "0ms"], "is not above 0"),
        ([], "needs one percentile with its limit"),
        (["--p99", "5ms", "--p50", "1ms"], "2 were given"),
        (["--limit", "5ms"], "needs one percentile with its limit"),
        (["--p99", "5ms", "--read", "130"], "130"),
        (["--p99", "5ms", "--size", "huge"], "--size is wrong"),
        (["--p99", "5ms", "--budget", "5"], "--budget is 5, less than 10 samples"),
        (["--p99", "5ms", "--at-least", "0"], "--at-least"),
        (["--p99", "5ms", "--seconds", "0"], "--seconds"),
    ],
)
def test_a_wrong_demand_is_one_sentence(tmp_path, model, options, said):
    told = simulated(tmp_path, model, *options)
    assert told.code == 2
    assert said in told.err
    assert "Traceback" not in told.err


SHORT = ("--p90", "20ms", "--file-size", "8MiB", "--buffered", "--threads", "1", "--depth", "4")


def test_a_real_directory_is_left_as_it_was(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    told = seatrial(
        "loadline", place, *SHORT, "--seconds", "0.1", "--budget", "3", "--json", folder=tmp_path
    )
    assert told.code == 0, told
    (line,) = told.document["load_lines"]
    assert line["closed_loop"]["value"] > 0
    assert len(line["steps"]) >= 2
    assert line["steps"][0]["response"]["p50"]["value"] > 0
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_line_is_kept_and_goes_on(tmp_path, number):
    place = tmp_path / "place"
    place.mkdir()
    options = (*SHORT, "--seconds", "0.2", "--budget", "8", "--json")
    process = start("loadline", place, *options, folder=tmp_path)
    wait_for_samples(tmp_path, 4)
    process.send_signal(number)
    told = ended(process)
    assert told.code == 4, told
    assert told.document["run"]["status"] == "interrupted"
    assert told.document["load_lines"][0]["steps"]
    assert all(sample["status"] == "complete" for sample in told.document["samples"])
    assert list(place.iterdir()) == []
    before = stored(tmp_path)[1]
    assert seatrial("loadline", place, *options, "--resume", folder=tmp_path).code == 0
    run, after = stored(tmp_path)
    assert run.status == "complete"
    assert after[: len(before)] == before
    assert len(after) > len(before)


def test_a_study_mixes_a_load_line_with_other_workloads(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(
        """
        name = "both"
        rounds = { min = 2, max = 2 }

        [[target]]
        kind = "simulated"
        size = "1GiB"
        model = { channels = 8, read = { base_us = 80, per_kib_us = 0 }, noise_share = 0.2 }

        [[workload]]
        kind = "io"
        seconds = 0.2

        [[workload]]
        kind = "loadline"
        limit = "2ms"

        [thresholds]
        "loadline.sustained_per_s" = "> 50000"
        """
    )
    told = seatrial("study", study, "--json", folder=tmp_path)
    assert told.code == 0, told
    kinds = [sample["cell_key"].split("/")[0] for sample in told.document["samples"]]
    assert kinds.count("io") == 2
    order = [sample.cell.kind for sample in stored(tmp_path)[1]]
    assert order[:3] == ["io", "io", "loadline"]
    assert "it sustains" in told.document["verdict"]
    assert "8 KiB at random" in told.document["verdict"]
    assert samples_count(tmp_path) == len(told.document["samples"])
