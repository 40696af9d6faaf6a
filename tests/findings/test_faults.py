"""Errors, corruption, what kernel and drive counted, heat."""

import pytest

from seatrial.findings.context import Context
from seatrial.findings.rules.errors import ADVICE_BY_ERROR, errors
from seatrial.findings.rules.kernel_errors import kernel_errors
from seatrial.findings.rules.temperature import temperature
from seatrial.results.model import Corruption, Verification
from seatrial.trials.io.findings.corruption import corruption
from stats.builders import cell_of, error_of, run_of, sample_of, summary_of


def context_of(*summaries, **run):
    return Context(run_of(**run), summaries)


def failing(*examples, failed=None, completed=900, **cell):
    count = len(examples) if failed is None else failed
    return summary_of(
        sample_of(cell_of(**cell), completed=completed, failed=count, errors=examples)
    )


def test_no_error_no_finding():
    assert errors(context_of(failing())) == []


@pytest.mark.parametrize("name", sorted(ADVICE_BY_ERROR))
def test_each_known_error_is_explained(name):
    (finding,) = errors(context_of(failing(error_of(name))))
    assert finding.severity == ADVICE_BY_ERROR[name].severity
    assert finding.cause == ADVICE_BY_ERROR[name].cause
    assert f"failed with {name}" in finding.sentence


@pytest.mark.parametrize("name", ["EIO", "ENODEV", "short transfer", "ESTALE"])
def test_errors_of_the_storage_are_critical(name):
    (finding,) = errors(context_of(failing(error_of(name))))
    assert finding.severity == "critical"


def test_the_count_the_share_and_the_lowest_offset_are_reported():
    (finding,) = errors(
        context_of(failing(error_of("ENOSPC", offset_bytes=8192), error_of("ENOSPC"), failed=100))
    )
    assert finding.severity == "warning"
    assert finding.sentence == (
        "100 of 1,000 requests (10 %) failed with ENOSPC in matrix: read 8 KiB, 1 thread; "
        "lowest offset 4,096 (4 KiB)."
    )
    assert finding.evidence["failed_count_is_exact"] is True


def test_a_number_without_a_name_is_looked_up():
    (finding,) = errors(context_of(failing(error_of("errno 117", errno=117))))
    assert "EUCLEAN" in finding.sentence
    assert "corrupted" in finding.cause


def test_names_are_distinguished_and_counts_shared_out():
    examples = [error_of("EIO")] * 24 + [error_of("ENOSPC")] * 8
    found = errors(context_of(failing(*examples, failed=400)))
    assert [finding.evidence["errno_name"] for finding in found] == ["EIO", "ENOSPC"]
    assert [finding.evidence["failed_count"] for finding in found] == [300, 100]
    assert found[0].sentence.startswith("About 300 of")


def test_cells_with_the_same_error_are_merged():
    cells = [failing(error_of(), threads=n) for n in range(1, 15)]
    (finding,) = errors(context_of(*cells, failing(workload="mix")))
    assert "14 of 15 tests" in finding.sentence
    assert len(finding.cells) == 14


def test_failures_without_an_example_are_reported():
    (finding,) = errors(context_of(failing(failed=5)))
    assert finding.evidence["failed_count"] == 5


def verified(*corruptions, corrupt=None, checked=1000):
    check = Verification(
        checked_blocks=checked,
        corrupt_blocks=len(corruptions) if corrupt is None else corrupt,
        corruptions=list(corruptions),
    )
    return summary_of(sample_of(verification=check))


def test_clean_checks_are_no_finding():
    assert corruption(context_of(verified())) == []
    assert corruption(context_of(summary_of(sample_of()))) == []


@pytest.mark.parametrize(
    ("kind", "reported"),
    [
        ("flipped_bit", "flipped bits"),
        ("torn_write", "torn writes"),
        ("stale", "a lost write"),
        ("newer", "newer data"),
        ("misplaced", "misdirected"),
        ("foreign", "did not write"),
    ],
)
def test_each_corruption_is_named(kind, reported):
    bad = Corruption(kind=kind, offset_bytes=4096, detail="bit 3 of byte 17")
    (finding,) = corruption(context_of(verified(bad)))
    assert finding.severity == "critical"
    assert "1 of 1,000 reads failed verification" in finding.sentence
    assert reported in finding.sentence
    assert "first at offset 4,096" in finding.sentence
    assert finding.evidence["kinds"] == {kind: 1}


def log_of(**by_kind):
    lines = [{"kind": kind, "text": f"nvme0: {kind}"} for kind in by_kind]
    return {"kernel_log": {"count": len(lines), "by_kind": by_kind, "lines": lines}}


@pytest.mark.parametrize(
    ("after", "severity"),
    [
        ({}, None),
        (log_of(), None),
        (log_of(thermal=3), None),  # reported by the finding temperature
        (log_of(reset=1), "warning"),
        (log_of(link=2), "warning"),
        (log_of(io_error=1), "critical"),
        (log_of(time_out=1, reset=3), "critical"),
        (log_of(hung_task=1), "critical"),
    ],
)
def test_kernel_messages(after, severity):
    found = kernel_errors(context_of(after=after))
    assert [finding.severity for finding in found] == ([severity] if severity else [])
    if severity:
        assert "nvme0" in found[0].sentence


def smart(**figures):
    return {"health": {"sda": {"smart": figures}}}


@pytest.mark.parametrize(
    ("before", "after", "severity"),
    [
        (smart(media_errors=1), smart(media_errors=1), None),
        (smart(media_errors=1), smart(media_errors=3), "critical"),
        (smart(), smart(media_errors=3), None),  # what was not known before did not grow
        (smart(link_crc_errors=0), smart(link_crc_errors=9), "warning"),
        ({}, {"error_counts_before": {}, "error_counts": {}}, None),
        (
            {},
            {
                "error_counts_before": {"sda": {"request_timeouts": 0}},
                "error_counts": {"sda": {"request_timeouts": 2}},
            },
            "critical",
        ),
        (
            {},
            {
                "error_counts_before": {"sda": {"request_errors": 0}},
                "error_counts": {"sda": {"request_errors": 2}},
            },
            None,
        ),
        (
            {},
            {
                "filesystem_error_counts_before": {"corruption_errs": 0},
                "filesystem_error_counts": {"corruption_errs": 4},
            },
            "critical",
        ),
    ],
)
def test_counters_that_grew(before, after, severity):
    found = kernel_errors(context_of(before=before, after=after))
    assert [finding.severity for finding in found] == ([severity] if severity else [])


def heat(celsius, *, warning=70.0, critical=80.0, **smart_figures):
    readings = {
        "temperature_c": celsius,
        "temperature_warning_c": warning,
        "temperature_critical_c": critical,
    }
    return {"health": {"nvme0n1": readings | {"smart": smart_figures}}}


@pytest.mark.parametrize(
    ("before", "after", "severity"),
    [
        (heat(40), heat(55), None),
        (heat(40), heat(56), "note"),
        (heat(60), heat(70), "warning"),
        (heat(60), heat(69.9), None),
        (heat(40, warning=None), heat(81, warning=None), "warning"),
        (heat(None, warning=None, critical=None), heat(99, warning=None, critical=None), None),
        (heat(40, throttle_light_count=2), heat(50, throttle_light_count=3), "critical"),
        (heat(40, throttle_light_count=2), heat(50, throttle_light_count=2), None),
        (heat(40), {}, None),
        ({}, log_of(thermal=2), "warning"),
    ],
)
def test_heat(before, after, severity):
    found = temperature(context_of(before=before, after=after))
    assert [finding.severity for finding in found] == ([severity] if severity else [])


def test_readings_of_the_samples_count_after_a_kill():
    before = heat(40) | {"target": {"stack": [{"name": "nvme0n1", "children": []}]}}
    cell = summary_of(
        *(sample_of(counters={"temperature_c": c}, round=i) for i, c in enumerate((45.0, 72.0)))
    )
    (finding,) = temperature(context_of(cell, before=before))
    assert finding.sentence == "nvme0n1 reached 72 °C; its limit is 70 °C."
