"""What parameters say in words: of what the cells show, and of nothing beyond."""

import pytest

from seatrial.trials.audit.analysis.tables import observations_of
from seatrial.trials.audit.queueing.fit import fit
from seatrial.trials.audit.queueing.forms import Variant
from seatrial.trials.audit.queueing.phrases import parameters_of

from .synthetic import READ_VALUES, SIZES, table_of


def reported(values, *, form="read", operation="read", **grid):
    """The sentences of a table that a form made, by parameter."""
    fitted = fit(Variant(form, tuple(values)), observations_of(table_of(form, values, **grid)))
    return {each.name: each for each in parameters_of(fitted, operation)}


def test_limits_that_cells_reach_are_reported():
    found = reported(READ_VALUES)
    assert found["host_service_us"].sentence.startswith("Host cost per I/O: 16")
    assert found["link_mib_per_s"].sentence.startswith("Bandwidth ceiling: 1,7")
    assert found["store_forward_kib"].sentence.startswith("Size of that first part: 600 KiB")
    assert found["admitted_count"].sentence.startswith("Reads saturate at 7.7")


@pytest.mark.parametrize(
    ("name", "changes", "grid"),
    [
        ("host_service_us", {"setup_us": 2000.0}, {}),
        ("link_mib_per_s", {}, {"sizes": SIZES[:5]}),
        ("store_forward_kib", {}, {"sizes": SIZES[:11]}),
        ("admitted_count", {"admitted_count": 45.0, "setup_us": 2000.0}, {}),
    ],
)
def test_what_no_cell_came_near_is_not_reported(name, changes, grid):
    """The value may well be right: it follows from the equation, not from what was seen."""
    assert reported(READ_VALUES | changes, **grid)[name].sentence == ""


def test_reads_one_by_one_are_not_called_a_lock():
    values = {"locked_us": 31.0, "link_mib_per_s": 540.0}
    reads = reported(values, form="locked_write")["locked_us"].sentence
    writes = reported(values, form="locked_write", operation="write")["locked_us"].sentence
    assert "lock" not in reads
    assert "serialised by a service time" in reads
    assert "writes are serialised by a lock held for 31" in writes


def test_a_small_table_reports_of_the_main_limits_only():
    """Which of the finer parameters it is cannot be known from fifteen cells."""
    found = reported(READ_VALUES, sizes=[512, 4096, 8192, 65536, 1 << 20])
    assert found["host_service_us"].sentence
    assert found["sub_page_us"].low is not None
    assert not any(found[name].sentence for name in ("sub_page_us", "admitted_count"))
