"""How fast a report is made and how large it may grow."""

from __future__ import annotations

import time

import msgspec

from findings.analyses import analyses_of
from report.page_reader import embedded, read
from report.sample_run import Maker, make_run, random_draft, sample_summary
from seatrial.findings.model import Summary
from seatrial.report.page import render
from seatrial.trials.audit.analysis import audit_tables
from seatrial.units import KIB

RENDER_S_MAX = 3.0
BYTES_MAX = 1_000_000
MATRIX_SIZES_BYTES = [512 * 2**power for power in range(14)]  # 512 B to 4 MiB, as the article's
MATRIX_CELLS = 84


def large_summary() -> Summary:
    """The article's matrix and all other workloads: 147 cells, nearly all of three rounds."""
    return sample_summary(sizes_bytes=MATRIX_SIZES_BYTES)


def test_a_large_run_is_rendered_quickly_and_stays_small():
    summary = large_summary()
    assert len([s for s in summary.cells if s.cell.kind == "matrix"]) == MATRIX_CELLS
    assert len(summary.cells) >= 140
    started = time.process_time()
    page = render(summary)
    assert time.process_time() - started < RENDER_S_MAX
    assert len(page.encode()) <= BYTES_MAX


def test_long_samples_do_not_grow_the_page():
    maker = Maker()
    drafts = [
        random_draft("matrix", "read", size_bytes, threads, rounds=2, duration_s=30.0)
        for size_bytes in (4 * KIB, 64 * KIB, 512 * KIB)
        for threads in range(1, 11)
    ]
    cells = [maker.summary(draft) for draft in drafts]
    page = render(Summary(run=make_run(), cells=cells, findings=[], verdict="Steady."))
    assert len(page.encode()) <= BYTES_MAX
    heat = next(f for f in embedded(read(page))["figures"] if f["kind"] == "heat")
    assert len(heat["views"]) == len(cells)
    assert len(msgspec.json.encode(heat)) <= 600_000


def test_a_run_of_very_many_cells_shows_less_and_says_so():
    maker = Maker()
    cells = [
        maker.summary(random_draft("matrix", operation, size_bytes, threads, rounds=2))
        for operation in ("read", "write")
        for size_bytes in MATRIX_SIZES_BYTES
        for threads in range(1, 33)
    ]
    page = render(Summary(run=make_run(), cells=cells, findings=[], verdict="Steady."))
    assert len(page.encode()) <= BYTES_MAX
    document = read(page)
    reported = document.one(id="tables").text
    assert (
        f"all percentiles and counts of {len(cells)} tests would make this page too large"
        in reported
    )
    heat = next(f for f in embedded(document)["figures"] if f["kind"] == "heat")
    kept = len(heat["views"])
    assert 0 < kept < len(cells)
    assert any(note.startswith(f"{kept} of {len(cells)} tests are kept") for note in heat["notes"])


def test_a_run_of_the_article_s_size_shows_everything():
    page = render(large_summary())
    assert "would make this page too large" not in page


def test_audits_of_very_many_cells_stay_within_the_bound():
    maker = Maker()
    cells = [
        maker.summary(random_draft("matrix", operation, size_bytes, threads, rounds=2))
        for operation in ("read", "write")
        for size_bytes in MATRIX_SIZES_BYTES
        for threads in range(1, 33)
    ]
    run = make_run()
    audits = audit_tables(run, cells)
    assert sum(len(audit.table.points) for audit in audits) == len(cells)
    summary = Summary(
        run=run, cells=cells, findings=[], verdict="Steady.", analyses=analyses_of(audits=audits)
    )
    page = render(summary)
    assert len(page.encode()) <= BYTES_MAX
    reported = read(page).one(id="audits").text
    assert "Only the tests in gaps are shown" in reported
