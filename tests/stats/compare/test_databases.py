"""Servers of two sides: versions and settings that differ are likely reasons."""

from __future__ import annotations

import msgspec
import pytest

from seatrial.machine.fingerprint.whole import differences
from seatrial.results.model import DatabaseRecord, Sample
from seatrial.stats.compare.comparison import compare
from seatrial.stats.compare.fingerprints import (
    DEFAULT,
    described,
    facts_of,
    server_facts,
    with_defaults,
)
from seatrial.stats.compare.model import Side, SideSamples
from seatrial.stats.compare.verdict import figure_phrase
from stats.builders import cell_of, run_of, sample_of

COMMIT = cell_of(workload="commit-truth", operation="commit", block_size_bytes=8192)
CELL = cell_of(workload="pgbench", operation="transaction", block_size_bytes=0, threads=10)


def on_server(settings: dict[str, str], server: str = "PostgreSQL 15.20") -> Sample:
    record = DatabaseRecord(
        server=server, binaries="installed", start_state="cold", settings=settings
    )
    return msgspec.structs.replace(sample_of(cell=CELL), database=record)


def one_side(*samples: Sample) -> SideSamples:
    run = run_of(before={"machine": {"kernel": "6.12"}})
    return SideSamples(side=Side(name="a", run=run), samples=list(samples))


def reported(a: SideSamples, b: SideSamples) -> dict[str, tuple[str, str, str]]:
    alike = with_defaults(facts_of(a), facts_of(b))
    found = described(differences(*alike))
    return {each.words: (each.a, each.b, each.weight) for each in found}


def test_a_setting_that_one_side_gives_stands_against_the_default():
    a = one_side(on_server({"full_page_writes": "off"}))
    b = one_side(on_server({"shared_buffers": "4GB"}, "PostgreSQL 18.6"))
    assert reported(a, b) == {
        "server": ("PostgreSQL 15.20", "PostgreSQL 18.6", "likely"),
        "setting full_page_writes": ("off", DEFAULT, "likely"),
        "setting shared_buffers": (DEFAULT, "4GB", "likely"),
    }


def test_where_a_server_is_explains_nothing():
    a = one_side(on_server({"port": "5432", "data_directory": "/a"}))
    b = one_side(on_server({"port": "5433", "data_directory": "/b"}))
    assert reported(a, b) == {}


def test_a_setting_that_the_study_varies_is_no_difference():
    samples = [on_server({"shared_buffers": size}) for size in ("1GB", "2GB")]
    assert server_facts(samples)["settings"] == {}


def test_without_a_database_nothing_is_reported():
    assert server_facts([sample_of(cell=CELL)]) == {}
    facts = facts_of(one_side(sample_of(cell=CELL)))
    assert "database" not in facts
    assert with_defaults(facts, facts) == (facts, facts)


def with_server(name: str, tps: float, commits_per_s: float) -> SideSamples:
    samples = [
        sample_of(cell=cell, completed=round(rate * (1 + 0.01 * number)), round=number)
        for cell, rate in ((COMMIT, commits_per_s), (CELL, tps))
        for number in range(4)
    ]
    return SideSamples(side=Side(name=name, run=run_of()), samples=samples)


def test_a_database_is_not_averaged_with_the_flushes_with_it():
    """Commits that are 40 times as fast make no transactions 40 times as fast."""
    (reported,) = compare(with_server("hdd", 100, 50), [with_server("ssd", 400, 2_000)])
    assert list(reported.overall)[:2] == ["tps", "iops"]
    assert reported.overall["tps"].value == pytest.approx(4, rel=1e-3)
    assert reported.overall["iops"].value == pytest.approx(40, rel=1e-3)
    assert reported.verdict.startswith("ssd is 4.00x")
    assert "as fast as hdd in tps in the only test; ssd is 40x" in reported.verdict
    (alone,) = compare(
        with_server("hdd", 100, 50), [with_server("ssd", 400, 2_000)], figures=["tps"]
    )
    assert "as fast as hdd in the only test" in alone.verdict


def test_rates_of_databases_are_called_tps():
    assert [figure_phrase(name) for name in ("tps", "iops", "read p99")] == [
        *("tps", "IOPS", "read p99")
    ]
