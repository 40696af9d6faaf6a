"""The gates on the article's own tables: errors, gaps, drain rates, sentences, speed."""

import re
import time

import numpy as np
import pytest

from seatrial.trials.audit.analysis import audit_tables
from seatrial.trials.audit.analysis.guide import first_cells
from seatrial.trials.audit.analysis.tables import known_points, observations_of
from seatrial.trials.audit.queueing.fit import choose, errors_share, fit
from seatrial.trials.audit.queueing.forms import Variant
from seatrial.units import KIB
from trials.audit.analysis import articles
from trials.audit.analysis.articles import RAID0, RAID5

COLLAPSED = {
    (64 * KIB, 1), (64 * KIB, 10), (64 * KIB, 40), (128 * KIB, 10), (128 * KIB, 40),
    (256 * KIB, 10), (512 * KIB, 1), (1024 * KIB, 10),
}  # fmt: skip
EXPECTED_GAPS = {
    (RAID0, "read"): {("start_transient", 512, 1)},
    (RAID0, "write"): set(),
    (RAID5, "read"): {("start_transient", 512, 1), ("start_transient", 512, 10)},
    (RAID5, "write"): {("collapse", *place) for place in COLLAPSED}
    | {("absent", *place) for place in articles.ABSENT},
}
GATES = [
    # configuration, operation, form, median %, p90 %
    (RAID0, "read", "read", 0.8, 3.0),
    (RAID5, "read", "read", 0.8, 3.0),
    (RAID0, "write", "locked_write", 4.0, 16.0),
    (RAID5, "write", "parity_write", 8.0, 30.0),
]
AUDIT_CPU_S_MAX = 2.0


@pytest.mark.parametrize(("configuration", "operation", "form", "median", "p90"), GATES)
def test_errors_off_the_gaps(configuration, operation, form, median, p90):
    audit = articles.audit(configuration, operation)
    assert (audit.form, audit.holds) == (form, True)
    assert audit.error_share_median <= median / 100
    assert audit.error_share_p90 <= p90 / 100


@pytest.mark.parametrize("configuration", [RAID0, RAID5])
def test_errors_of_read_tables_with_their_gaps(configuration):
    audit = articles.audit(configuration, "read")
    errors = [
        abs(audit.predictions[p.key].iops / p.iops.value - 1) for p in known_points(audit.table)
    ]
    assert np.median(errors) <= 0.008
    assert np.quantile(errors, 0.9) <= 0.03


def test_raid0_parameters_unchanged_describe_raid5_reads():
    fitted = choose(observations_of(articles.table(RAID0, "read"))).fit
    cells = observations_of(articles.table(RAID5, "read"))
    predicted = fitted.predicted_per_s(cells.size_bytes, cells.concurrency)
    errors = errors_share(np.log(cells.rate_per_s / predicted))
    assert np.median(errors) <= 0.010
    assert np.quantile(errors, 0.9) <= 0.04


@pytest.mark.parametrize(("configuration", "operation"), EXPECTED_GAPS)
def test_exactly_these_cells_are_gaps(configuration, operation):
    audit = articles.audit(configuration, operation)
    found = {(gap.kind, *articles.place(key)) for gap in audit.gaps for key in gap.keys}
    assert found == EXPECTED_GAPS[configuration, operation]
    assert all(gap.status == "seen_once" for gap in audit.gaps)


def test_the_collapse_is_one_gap_with_its_sizes_in_words():
    collapse, absent = articles.audit(RAID5, "write").gaps
    assert (collapse.kind, absent.kind) == ("collapse", "absent")
    assert "Writes from 64 KiB to 1 MiB collapse: 8 tests" in collapse.sentence
    assert "256 KiB at 40 threads, 512 KiB at 10 and 40 threads, 1 MiB at 40" in absent.sentence


@pytest.mark.parametrize(("configuration", "drain"), [(RAID0, 544), (RAID5, 220)])
@pytest.mark.parametrize("as_imported", [True, False])
def test_drain_rates_that_the_start_implies(configuration, drain, as_imported):
    """The time of a cell is inferred from the largest writes, or given: 10 s."""
    if as_imported:
        run = articles.run(configuration)
        audits = audit_tables(run, articles.summaries(configuration))
    else:
        run = articles.run_of(study={"name": "own"})
        audits = audit_tables(run, articles.summaries(configuration, duration_s=10.0))
    reads = next(audit for audit in audits if audit.table.operation == "read")
    (start,) = reads.gaps
    assert start.drain_mib_per_s == pytest.approx(drain, rel=0.05)
    assert "in tests of 10 s" in start.cause


def test_the_host_limit_and_the_link_in_words():
    sentences = " ".join(p.sentence for p in articles.audit(RAID0, "read").parameters)
    assert re.search(
        r"Host cost per I/O: 15\.9 µs \(15\.\d to 16\.\d\), which limits any drives to "
        r"62,[89]00 \(\S+ to \S+\) IOPS\.",
        sentences,
    )
    assert re.search(r"Bandwidth ceiling: 1,73\d MiB/s \(1,7\d\d to 1,7\d\d\)\.", sentences)


def test_the_lock_in_words():
    sentences = " ".join(p.sentence for p in articles.audit(RAID0, "write").parameters)
    assert "More threads do not help: writes are serialised by a lock held for 31 µs" in sentences


@pytest.mark.parametrize("configuration", [RAID0, RAID5])
def test_seven_chosen_cells_predict_the_rest_of_a_read_table(configuration):
    table = articles.table(configuration, "read")
    keys = first_cells([(p.key, p.block_size_bytes, p.threads, p.depth) for p in table.points])
    assert len(keys) == len(set(keys)) == 7
    outlier = {key for gap in articles.audit(configuration, "read").gaps for key in gap.keys}
    seen = np.array([point.key in keys for point in table.points])
    held_out = np.array([p.key not in keys and p.key not in outlier for p in table.points])
    observed = observations_of(table)
    rest = observed.subset(held_out)
    predicted = choose(observed.subset(seen)).fit.predicted_per_s(rest.size_bytes, rest.concurrency)
    errors = errors_share(np.log(rest.rate_per_s / predicted))
    assert np.median(errors) <= 0.015
    assert np.quantile(errors, 0.9) <= 0.04


def test_research_parameters_come_out():
    """The values of the research note: the fit is the same, not only as good."""
    values = fit(
        Variant(
            "read",
            ("setup_us", "host_service_us", "link_mib_per_s", "store_forward_us_per_mib",
             "store_forward_kib", "admitted_count", "sub_page_us"),
        ),
        observations_of(articles.table(RAID0, "read")),
    ).values  # fmt: skip
    wanted = {
        "setup_us": 11.9, "host_service_us": 15.9, "link_mib_per_s": 1736,
        "store_forward_us_per_mib": 149, "store_forward_kib": 596, "admitted_count": 7.7,
        "sub_page_us": 23,
    }  # fmt: skip
    for name, value in wanted.items():
        assert values[name] == pytest.approx(value, rel=0.03), name


def test_the_audit_of_the_article_takes_at_most_two_seconds():
    runs = [(articles.run(c), articles.summaries(c)) for c in (RAID0, RAID5)]
    before_s = time.process_time()
    audits = [audit for run, cells in runs for audit in audit_tables(run, cells)]
    assert time.process_time() - before_s < AUDIT_CPU_S_MAX
    assert sum(len(known_points(audit.table)) for audit in audits) == 164
