"""The columns of the CSV that only cells of a database have."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from seatrial.findings.model import Summary
from seatrial.report.exports.csv_row import Field, interval_columns
from seatrial.results.model import Sample
from seatrial.stats.estimates import counted
from seatrial.stats.model import CellSummary
from seatrial.trials.database.analysis.model import DatabaseCell, ReadShares, database_of


def database_columns(summary: Summary) -> dict[str, dict[str, Field]]:
    """Return the columns of each cell of a database, by its key."""
    found = (
        {each.cell.key: each for each in analysis.cells}
        if (analysis := database_of(summary))
        else {}
    )
    return {
        part.cell.key: _of_database(part, found[part.cell.key])
        for part in summary.cells
        if part.cell.key in found
    }


def _of_database(summary: CellSummary, found: DatabaseCell) -> dict[str, Field]:
    """Return what only a cell of a database has."""
    real_s = found.batch_s.get("real")
    return {
        "server": found.server,
        "start_state": found.start_state,
        "database_bytes": found.database_bytes,
        "loaded_s": found.loaded_s,
        "bound": found.verdict.bound,
        "client_cpu_share": found.client_cpu_share,
        "ceiling_per_s": found.ceiling_per_s,
        **_shares(found.reads),
        **(interval_columns("real_s", real_s) if real_s else {}),
        **_reported(summary.samples),
    }


def _shares(reads: ReadShares | None) -> dict[str, Field]:
    if reads is None:
        return {}
    return {
        "reads_shared_buffers_share": reads.shared_buffers.value,
        "reads_page_cache_share": reads.page_cache.value,
        "reads_device_share": reads.device.value,
    }


def _reported(samples: Sequence[Sample]) -> dict[str, Field]:
    """Return the mean over the rounds of each total that the driver printed in all of them."""
    reported = [sample.database.reported for sample in counted(samples) if sample.database]
    names = (
        [name for name in reported[0] if all(name in each for each in reported)] if reported else []
    )
    return {f"told_{name}": statistics.fmean(each[name] for each in reported) for name in names}
