"""The findings ``gap``, ``host_limited``, ``lock_limited`` and ``saturated``."""

import msgspec
import numpy as np
import pytest

from findings.analyses import analyses_of
from seatrial.findings.answer import in_one_line
from seatrial.findings.context import Context
from seatrial.findings.summary import summarise
from seatrial.stats.fastest import saturation
from seatrial.trials.audit.analysis.audit import audit_table
from seatrial.trials.audit.analysis.model import audits_of
from seatrial.trials.audit.findings.gap import gap
from seatrial.trials.audit.findings.host_limited import host_limited
from seatrial.trials.audit.findings.lock_limited import lock_limited
from seatrial.trials.audit.findings.saturated import saturated
from stats.builders import cell_of, rounds_of, run_of
from trials.audit.analysis import articles
from trials.audit.analysis.articles import RAID0, RAID5
from trials.audit.analysis.synthetic import READ_VALUES, table_of


def context_of(*audits):
    return Context(run_of(), [], analyses_of(audits=audits))


def on(target, audit):
    return msgspec.structs.replace(audit, table=msgspec.structs.replace(audit.table, target=target))


def test_gaps_of_the_article_become_findings_with_their_cells():
    found = gap(context_of(articles.audit(RAID5, "read"), articles.audit(RAID5, "write")))
    assert [(each.evidence["class"], each.severity, len(each.cells)) for each in found] == [
        ("start_transient", "note", 2),
        ("collapse", "warning", 8),
        ("absent", "warning", 4),
    ]
    assert {cell["block_size_bytes"] for cell in found[0].cells} == {512}
    assert "seatrial io TARGET --operation write --block-size 64KiB --threads 1" in found[1].next
    assert "TARGET" not in found[0].next


def test_of_several_targets_each_gap_names_its_own():
    cells = [rounds_of(cell_of(target=name), [1000]) for name in ("raid0-12", "raid5-4")]
    audits = analyses_of(audits=[on("raid5-4", articles.audit(RAID5, "write"))])
    found = gap(Context(run_of(), cells, audits))
    assert [in_one_line(each) for each in found] == [
        "On raid5-4, writes from 64 KiB to 1 MiB collapse: 8 tests reached 3 % to 31 % of the rate "
        "expected from the rest of the table",
        "On raid5-4, 4 tests of the writes have no figure: 256 KiB at 40 threads, 512 KiB at 10 "
        "and 40 threads, 1 MiB at 40 threads",
    ]
    (only,) = gap(Context(run_of(), cells[1:], audits))[:1]
    assert only.sentence.startswith("Writes from 64 KiB")


def test_a_summary_of_the_article_holds_them():
    samples = articles.samples(RAID5)
    summary = summarise(articles.run(RAID5), samples)
    kinds = [finding.kind for finding in summary.findings]
    assert kinds.count("gap") == 3
    assert {"host_limited", "saturated"} <= set(kinds)
    assert len(audits_of(summary)) == 2


def test_absent_cells_that_were_measured_are_reported_elsewhere():
    audit = articles.audit(RAID5, "write")
    own = msgspec.structs.replace(audit, table=msgspec.structs.replace(audit.table, imported=False))
    assert [each.evidence["class"] for each in gap(context_of(own))] == ["collapse"]


def test_the_cost_of_the_host_is_shared_by_both_arrays():
    reads = [on("raid0-12", articles.audit(RAID0, "read"))]
    reads.append(on("raid5-4", articles.audit(RAID5, "read")))
    (found,) = host_limited(context_of(*reads))
    assert found.sentence.startswith("Reads of up to 16 KiB reach the same maximum rate")
    assert "Host cost per I/O: 15.9 µs" in found.sentence
    assert "The limit is the same on raid0-12 and raid5-4: a shared resource" in found.sentence
    assert found.evidence["iops_limit"] == pytest.approx(62_850, rel=0.005)
    assert {cell["target"] for cell in found.cells} == {"raid0-12", "raid5-4"}


def test_tables_of_one_target_with_the_same_limit_are_counted_together():
    reads = audit_table(table_of("read", READ_VALUES))
    (alone,) = host_limited(context_of(reads))
    table = msgspec.structs.replace(reads.table, operation="write", points=reads.table.points[:9])
    both = context_of(reads, msgspec.structs.replace(reads, table=table))
    (found,) = host_limited(both)
    assert found.sentence.startswith("Reads and writes of up to 16 KiB")
    assert len(found.cells) > len(alone.cells)
    assert f"({len(found.cells)} tests)" in found.sentence


def drives(*names, model):
    return {"stack": [{"name": name, "model": model} for name in names]}


@pytest.mark.parametrize(
    ("other", "is_acquitted"),
    [
        (drives("nvme1n1", model="A"), False),
        (drives("nvme0n1", model="A"), False),
        (drives("nvme1n1", model="B"), True),
        (drives("nvme1n1", "nvme2n1", model="A"), True),
        ({}, False),
    ],
)
def test_drives_are_acquitted_only_if_unlike_ones_have_the_same_limit(other, is_acquitted):
    before = {"target": drives("nvme0n1", model="A"), "other_targets": {"b": other}}
    audit = articles.audit(RAID0, "read")
    analyses = analyses_of(audits=(on("a", audit), on("b", audit)))
    (found,) = host_limited(Context(run_of(before=before), [], analyses))
    assert ("not the drives" in found.sentence) == is_acquitted


def test_hosts_of_different_cost_are_distinguished():
    slower = READ_VALUES | {"host_service_us": 2 * READ_VALUES["host_service_us"]}
    one, other = (audit_table(table_of("read", values)) for values in (READ_VALUES, slower))
    found = host_limited(context_of(on("a", one), on("b", other)))
    assert len(found) == 2
    assert all("The limit is the same" not in each.sentence for each in found)


def test_a_table_that_the_link_limits_is_not_host_limited():
    values = READ_VALUES | {"link_mib_per_s": 20.0}
    audit = audit_table(table_of("read", values))
    assert audit.holds
    assert host_limited(context_of(audit)) == []


def test_the_lock_of_the_article():
    (found,) = lock_limited(context_of(articles.audit(RAID0, "write")))
    assert found.sentence.startswith("40 writes in flight reach 1.0")
    assert found.sentence.count("More threads do not help: writes are serialised by a lock") == 1
    assert found.evidence["gain_ratio"] == pytest.approx(1.0, abs=0.1)
    reads = [articles.audit(c, "read") for c in (RAID0, RAID5)]
    assert lock_limited(context_of(*reads)) == []


def test_no_lock_where_threads_help_a_quarter_or_more():
    values = {"locked_us": 30.0, "link_mib_per_s": 500.0, "threads_gain_ratio": 4.0}
    audit = audit_table(table_of("locked_write", values))
    assert lock_limited(context_of(audit)) == []


@pytest.mark.parametrize("configuration", [RAID0, RAID5])
def test_the_article_is_saturated_from_ten_threads_on(configuration):
    (found,) = saturated(context_of(articles.audit(configuration, "read")))
    assert found.sentence.startswith("Reads saturate at 10 in flight: more (up to 40) reach at")
    assert found.evidence["saturated_from_count"] == 10
    assert "Reads saturate at 7.7" in found.sentence


def test_of_several_targets_each_finding_names_its_own():
    slower = READ_VALUES | {"host_service_us": 2 * READ_VALUES["host_service_us"]}
    reads = [
        on(name, audit_table(table_of("read", values)))
        for name, values in (("ssd", READ_VALUES), ("san", slower))
    ]
    writes = [on(name, articles.audit(RAID0, "write")) for name in ("ssd", "san")]
    for find, audits in ((saturated, reads), (host_limited, reads), (lock_limited, writes)):
        reported = [each.sentence for each in find(context_of(*audits))]
        assert [" on ssd " in reported[0], " on san " in reported[1]] == [True, True], reported
        assert all(" on " not in each.sentence for each in find(context_of(audits[0])))


def test_a_lock_is_no_saturation():
    assert saturated(context_of(articles.audit(RAID0, "write"))) == []


def test_saturation_needs_growth_before_and_none_beyond():
    def series(rate):
        return {size: rate * size for size in (1, 2, 3, 4)}

    grows = {1: series(10), 2: series(20), 4: series(40), 8: series(80)}
    assert saturation(grows) is None
    ends = grows | {8: series(40.4), 16: series(40.0)}
    assert saturation(ends).count == 4
    assert saturation({1: series(10), 2: series(20)}) is None, "nothing was measured beyond"
    assert saturation({1: {1: 1.0}, 2: {1: 2.0}, 4: {1: 2.0}}) is None, "one series is too few"


def test_saturation_is_not_reported_out_of_noise():
    random = np.random.default_rng(3)
    reported = 0
    for _ in range(100):
        rates = {
            count: {size: rate * random.lognormal(0, 0.3) for size in range(5)}
            for count, rate in ((1, 10.0), (10, 20.0), (40, 30.0))
        }
        reported += saturation(rates) is not None
    assert reported <= 5
