"""The columns of the CSV that only cells on layouts have: the array, its drives, its failure."""

from __future__ import annotations

from seatrial.findings.model import Summary
from seatrial.report.exports.csv_row import Field, interval_columns
from seatrial.trials.layouts.analysis.model import Accounting, Recovery, layouts_of
from seatrial.trials.layouts.report.words import Variant, mean_of_builds, variants_of

_NS_PER_S = 1e9


def layout_columns(summary: Summary) -> dict[str, dict[str, Field]]:
    """Return the columns of each cell that was measured on a layout, by its key."""
    variants = {variant.spec.label: variant for variant in variants_of(summary)}
    found = layouts_of(summary)
    accounts = {each.cell.key: each for each in found.accounting} if found else {}
    recoveries = {each.cell.key: each for each in found.recoveries} if found else {}
    columns = {}
    for part in summary.cells:
        labels = [sample.layout.layout.get("label") for sample in part.samples if sample.layout]
        variant = variants.get(str(labels[0])) if labels else None
        if variant is None:
            continue
        key = part.cell.key
        columns[key] = {
            **_built(variant),
            **_device(accounts.get(key)),
            **_failure(recoveries.get(key)),
        }
    return columns


def _built(variant: Variant) -> dict[str, Field]:
    spec, record = variant.spec, variant.record
    return {
        "layout": spec.label,
        "layout_backend": spec.backend,
        "layout_level": spec.level,
        "layout_drives": spec.legs * spec.drives,
        "layout_legs": spec.legs,
        "layout_spares": spec.legs * spec.spares,
        "layout_chunk_kib": spec.chunk_kib,
        "layout_filesystem": spec.filesystem,
        "layout_usable_bytes": record.usable_bytes,
        "layout_built_s": _mean_s(variant, "built_s"),
        "layout_synced_s": _mean_s(variant, "synced_s"),
        "layout_aligned": not record.misaligned,
    }


def _mean_s(variant: Variant, name: str) -> float:
    mean = mean_of_builds(variant, name)
    return mean.value / _NS_PER_S if mean else 0.0


def _device(account: Accounting | None) -> dict[str, Field]:
    """Return what the drives did for each request, and what the level asks for."""
    if account is None:
        return {}
    rule = account.rule
    columns = {
        **interval_columns("device_reads", account.reads),
        **interval_columns("device_writes", account.writes),
        "device_reads_rule": rule.reads if rule else None,
        "device_writes_rule": rule.writes if rule else None,
    }
    if account.write_bytes:
        columns |= interval_columns("device_write_bytes_ratio", account.write_bytes)
    return columns


def _failure(recovery: Recovery | None) -> dict[str, Field]:
    """Return what a failure cost: rebuild, lowest rate, time without redundancy, errors, data."""
    if recovery is None:
        return {}
    rebuild, window = recovery.rebuild_time, recovery.window
    return {
        "failure_rebuild_s": rebuild.value / _NS_PER_S if rebuild else None,
        "failure_window_s": window.value / _NS_PER_S if window else None,
        "failure_lowest_share": recovery.lowest_share,
        "failure_failed": recovery.failed_count,
        "failure_corrupt_blocks": recovery.corrupt_blocks,
        "failure_unreadable_bytes": recovery.unreadable_bytes,
    }
