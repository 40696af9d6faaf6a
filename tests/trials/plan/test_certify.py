"""Certificates: when a promise is kept, and what a million of what was sustained costs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cli.command import Ended, seatrial
from report.json_schema import assert_published
from seatrial.catalogue.units import Money
from seatrial.findings.model import Summary
from seatrial.report.table import as_text, table_width
from seatrial.stats.estimate import Estimate
from seatrial.trials.plan.analysis.caps import Cap
from seatrial.trials.plan.analysis.certificate import certificate_of, price_per_million
from seatrial.trials.plan.report.certificate_page import render
from seatrial.trials.plan.report.certificate_text import notes, sustained_table, verdict_line
from stats.builders import cell_of, rounds_of, run_of
from trials.loadline.report.loadline_hand import make_load_line

MODEL = "channels = 4\nnoise_share = 0.2\nread = { base_us = 1000.0, per_kib_us = 0.0 }\n"
"""About 3,333 requests per second: a volume of 3,000 and one of 5,000 have it promised."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certify")
    (made / "m.toml").write_text(MODEL)
    run = ("io", "simulated", "--model", "m.toml", "--seconds", "20", "--depth", "32")
    assert seatrial(*run, "--block-size", "8k", folder=made).code == 0
    return made


def called(folder: Path, *words: str) -> Ended:
    env = {"SEATRIAL_CATALOGUE": str(folder / "own.toml")}
    return seatrial("certify", "last", *words, folder=folder, env=env)


def test_the_price_of_a_million_has_an_interval_from_both_ends():
    rate = Estimate(value=1000, low=900, high=1100, rounds=3, unit="IOPS")
    found = price_per_million(Money(90, 100, 110, "USD"), rate)
    assert found is not None
    seconds = 730 * 3600
    assert found.mid == pytest.approx(100 / (1000 * seconds) * 1e6)
    assert found.low == pytest.approx(90 / (1100 * seconds) * 1e6)
    assert found.high == pytest.approx(110 / (900 * seconds) * 1e6)
    assert price_per_million(None, rate) is None


def test_a_rate_that_is_only_a_lower_bound_costs_at_most_its_price():
    rate = Estimate(value=1000, low=1000, high=None, rounds=3, unit="IOPS")
    analyses = {"loadline": [make_load_line(sustained=rate)]}
    run = Summary(run=run_of(), cells=[], findings=[], verdict="", analyses=analyses)
    found = certificate_of(run, [], Money.of(2628, "USD"), "typed")
    (line,) = found.sustained
    assert line.per_million is not None
    assert line.per_million.low == 0
    assert "at most 1 USD per million" in verdict_line(found)
    assert "No warnings" not in render(found, run, notes(found)), "notes have no severity"
    weak = msgspec.structs.replace(found, warnings=["It varied.", "It was not alone."])
    assert "2 warnings about the run" in render(weak, run, notes(weak))
    known = msgspec.structs.replace(line, p99=rate)
    narrow = sustained_table(msgspec.structs.replace(found, sustained=[known]))
    assert "at most 1 USD" in as_text(narrow, table_width(narrow) - 1)


def test_a_fill_neither_keeps_a_promise_nor_is_sustained():
    fill = rounds_of(cell_of(kind="fill", workload="fill", operation="write"), [9000])
    read = rounds_of(cell_of(), [1000, 1000, 1000])
    promise = Cap(subject="volume", name="x", quantity="IOPS", per_s=1000, origin="typed")
    for cells, rates in (([fill, read], [1000]), ([fill], [9000])):
        run = Summary(run=run_of(), cells=cells, findings=[], verdict="")
        found = certificate_of(run, [promise], None, "")
        assert [each.delivered.value for each in found.promises] == rates
        assert [each.rate.value for each in found.sustained] == rates
        assert found.rounds == len(cells[-1].samples)


@pytest.mark.parametrize(
    ("tests", "iops", "throughput"),
    [
        ([(8192, 990)], ("kept", None), ("not tested", 65_536)),
        ([(1 << 20, 50)], ("not tested", 32_768), ("kept", None)),
        ([(8192, 990), (1 << 20, 50)], ("kept", None), ("kept", None)),
        ([(8192, 500), (1 << 20, 20)], ("not reached", None), ("not reached", None)),
        ([(49_152, 500)], ("not reached", None), ("not tested", 65_536)),
    ],
)
def test_a_promise_that_another_one_hides_is_not_tested(tests, iops, throughput):
    """1,000 IOPS and 50 MiB/s: both are reached by requests of 51.2 KiB."""
    promises = [
        Cap(subject="volume", name="x", quantity=quantity, per_s=per_s, origin="typed")
        for quantity, per_s in (("IOPS", 1000), ("throughput", 50 << 20))
    ]
    cells = [
        rounds_of(cell_of(block_size_bytes=size), [per_s] * 3, transferred_bytes=size * per_s)
        for size, per_s in tests
    ]
    run = Summary(run=run_of(), cells=cells, findings=[], verdict="")
    found = certificate_of(run, promises, None, "")
    checks = [(each.verdict, each.block_size_bytes) for each in found.promises]
    assert checks == [iops, throughput]
    tested = [each for each in checks if each[1] is None]
    kept = sum(verdict == "kept" for verdict, _ in tested)
    assert verdict_line(found).startswith(f"{kept} of {len(tested)} promise")


@pytest.mark.parametrize(
    ("volume", "verdict", "has_price"),
    [
        ("gp3:100GiB:3300", "kept", True),
        ("gp3:100GiB:5000", "not reached", True),
        ("gp3:100GiB", "exceeded", False),
    ],
)
def test_a_promise_is_kept_or_not(folder: Path, volume: str, verdict: str, has_price: bool):
    done = called(folder, "--volume", volume, "--json")
    assert (done.code, done.err) == (0, "")
    assert_published(done.document)
    found = done.document["certificate"]
    verdicts = {each["cap"]["quantity"]: each["verdict"] for each in found["promises"]}
    assert verdicts == {"IOPS": verdict, "throughput": "not tested"}
    assert (found["sustained"][0]["per_million"] is not None) == has_price


def test_an_instance_has_limits_without_a_price_of_its_volume(folder: Path):
    words = ("--instance", "m7g.large", "--volume", "gp3:1TiB:12000:400", "--json")
    found = called(folder, *words, "--region", "eu-central-1").document["certificate"]
    promised = {(each["cap"]["subject"], each["cap"]["quantity"]) for each in found["promises"]}
    assert promised == {("instance", "IOPS"), ("instance", "throughput")}
    assert found["month"] is None


def test_limits_need_no_region(tmp_path: Path, folder: Path):
    own = tmp_path / "own.toml"
    own.write_text(
        '["prices/aws/gp3/capacity/eu-central-1"]\nas_of = "2026-11-28"\nmid = 0.0952\n'
        'currency = "USD"\nunit = "GiB-month"\n'
    )
    words = ("--instance", "r7i.2xlarge", "--volume", "gp3:1TiB:16000:1000", "--json")
    for command in (("certify", "last"), ("caps",)):
        page = ("-o", "page.html", "--force")
        done = seatrial(
            *command, *words, *page, folder=folder, env={"SEATRIAL_CATALOGUE": str(own)}
        )
        assert (done.code, done.err) == (0, "")
        assert any("--region" in note for note in done.document["notes"])
        assert "--region" in (folder / "page.html").read_text()
        region = ("--region", "us-east-1")
        named = seatrial(
            *command, *words, *region, folder=folder, env={"SEATRIAL_CATALOGUE": str(own)}
        )
        assert not any("--region" in note for note in named.document["notes"])


def test_the_page_is_written_and_the_price_may_be_typed(folder: Path):
    done = called(folder, "--price", "73USD", "-o", "certificate.html")
    assert (done.code, done.err) == (0, "")
    assert "To repeat it: seatrial io simulated" in " ".join(done.out.split())
    assert "73.00 USD per month (typed)" in " ".join(done.out.split())
    page = (folder / "certificate.html").read_text()
    assert "table-sustained" in page
    document = called(folder, "--price", "73USD", "--json").document
    sustained = document["certificate"]["sustained"][0]
    expected = 73 / (sustained["rate"]["value"] * 730 * 3600) * 1e6
    assert sustained["per_million"]["mid"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--price", "73"), "'73' is not a price"),
        (("--volume", "gp9:1GiB"), "no volume 'gp9'"),
        (("--instance", "r7i.3xlarge"), "no instance 'r7i.3xlarge'"),
    ],
)
def test_bad_input_is_one_sentence(folder: Path, words: tuple[str, ...], said: str):
    done = called(folder, *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
