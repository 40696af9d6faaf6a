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
    reported = simulated(tmp_path, model, "--p99", "2ms", "--read-share", "0.7", "--tables")
    assert reported.code == 0, reported
    assert reported.out.startswith("Sustains ")
    assert "with p99 within 2 ms" in reported.out
    headings = next(line for line in reported.out.splitlines() if line.startswith("Offered"))
    assert all(word in headings for word in ("p99", "Late", "Limit"))
    assert "p99 <= 2 ms is exceeded at a knee" in reported.out
    shown = seatrial("show", "last", "--tables", folder=tmp_path)
    assert shown.code == 0
    answer, _, tables = shown.out.partition("\n\n")
    assert answer in reported.out
    assert tables.split("Offered")[1].strip() in reported.out
    for command in (("report", "last"), ("export", "last", "--format", "csv")):
        assert seatrial(*command, folder=tmp_path).code == 0


def test_the_document_holds_the_line(tmp_path, model):
    reported = simulated(tmp_path, model, "--p99", "2ms", "--json")
    (line,) = reported.document["load_lines"]
    assert (line["percentile"], line["limit_ns"], line["breaks"]) == ("p99", 2_000_000, "knee")
    assert line["sustained"]["value"] == pytest.approx(CAPACITY_PER_S, rel=0.06)
    assert line["sustained"]["low"] < line["sustained"]["high"] <= CAPACITY_PER_S * 1.02
    assert line["sentence"] in reported.document["verdict"]
    kinds = [finding["kind"] for finding in reported.document["findings"]]
    assert "knee" in kinds
    assert "late_requests" not in kinds, "the rates that are too high are sought on purpose"
    assert reported.document["run"]["study"]["workload"][0]["limit"] == "2ms"


@pytest.mark.parametrize(("rate", "code"), [("50000", 0), ("120000", 3)])
def test_a_rate_can_be_demanded(tmp_path, model, rate, code):
    reported = simulated(tmp_path, model, "--p99", "2ms", "--at-least", rate, "--json")
    assert reported.code == code
    (threshold,) = reported.document["thresholds"]
    assert threshold["met"] is (code == 0)
    assert threshold["worst"]["unit"] == "IOPS"


def test_nothing_sustained_is_not_enough(tmp_path, model):
    reported = simulated(tmp_path, model, "--p99", "20us", "--at-least", "1", "--tables")
    assert reported.code == 3
    assert "even at" in reported.out


def test_both_spellings_ask_the_same(tmp_path, model):
    short = simulated(tmp_path, model, "--p99.9", "2ms", "--plan", "--json")
    words = simulated(
        tmp_path, model, "--percentile", "p99.9", "--limit", "2ms", "--plan", "--json"
    )
    assert short.document == words.document
    assert "p99.9 <= 2ms" in short.document["notes"][0]
    assert short.document["cells"][0]["key"] == "loadline/read/8192B/4t/32d"


def test_former_names_mean_the_same_and_print_the_present_ones(tmp_path, model):
    now = ("--read-share", "0.7", "--block-size", "16k", "--size", "64MiB")
    then = ("--read", "70", "--size", "16k", "--file-size", "64MiB")
    plans = [
        simulated(tmp_path, model, "--p99", "2ms", *names, "--plan", "--json")
        for names in (now, then)
    ]
    assert plans[0].code == plans[1].code == 0
    assert plans[0].document == plans[1].document
    assert plans[0].document["cells"][0]["key"] == "loadline/mixed/16384B/4t/32d/read_share=0.7"
    assert plans[0].err == ""
    for former, present in (
        ("--read", "--read-share"),
        ("--size for requests", "--block-size"),
        ("--file-size", "--size"),
    ):
        assert f"Note: {former} is now {present}" in plans[1].err
    help_text = simulated(tmp_path, model, "--help").out
    assert "--file-size" not in help_text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--p99", "5"], "--p99 is invalid: '5' has no unit; write 5ms or 5us"),
        (["--p99", "soon"], "'soon' is not a time"),
        (["--p99", "0ms"], "is not above 0"),
        ([], "needs one percentile with its limit"),
        (["--p99", "5ms", "--p50", "1ms"], "2 were given"),
        (["--limit", "5ms"], "needs one percentile with its limit"),
        (["--p99", "5ms", "--read-share", "1.3"], "1.3"),
        (["--p99", "5ms", "--block-size", "huge"], "--block-size is invalid"),
        (["--p99", "5ms", "--size", "huge"], "'huge'"),
        (["--p99", "5ms", "--budget", "5"], "--budget is 5, less than 10 samples"),
        (["--p99", "5ms", "--at-least", "0"], "--at-least"),
        (["--p99", "5ms", "--seconds", "0"], "--seconds"),
    ],
)
def test_a_wrong_demand_is_one_sentence(tmp_path, model, options, message):
    reported = simulated(tmp_path, model, *options)
    assert reported.code == 2
    assert message in reported.err
    assert "Traceback" not in reported.err


SHORT = ("--p90", "20ms", "--size", "8MiB", "--buffered", "--threads", "1", "--depth", "4")


def test_a_real_directory_is_left_as_it_was(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    reported = seatrial(
        "loadline", place, *SHORT, "--seconds", "0.1", "--budget", "3", "--json", folder=tmp_path
    )
    assert reported.code == 0, reported
    (line,) = reported.document["load_lines"]
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
    reported = ended(process)
    assert reported.code == 4, reported
    assert reported.document["run"]["status"] == "interrupted"
    assert reported.document["load_lines"][0]["steps"]
    assert all(sample["status"] == "complete" for sample in reported.document["samples"])
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
    reported = seatrial("study", study, "--json", folder=tmp_path)
    assert reported.code == 0, reported
    kinds = [sample["cell_key"].split("/")[0] for sample in reported.document["samples"]]
    assert kinds.count("io") == 2
    order = [sample.cell.kind for sample in stored(tmp_path)[1]]
    assert order[:3] == ["io", "io", "loadline"]
    assert "sustains" in reported.document["verdict"].lower()
    assert "8 KiB at random" in reported.document["verdict"]
    assert samples_count(tmp_path) == len(reported.document["samples"])
